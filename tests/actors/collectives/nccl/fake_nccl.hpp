#pragma once

#include "troupe/actors/collectives/nccl/communicator/device_communicator.hpp"
#include "troupe/tensors/flush_denormals.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// Devices, streams and communicators in host memory, for tests without a card.
// Nothing happens at the time of a call: `fake_nccl::step` does the next piece
// of work of a stream that a seed chooses. An aborted group writes garbage to
// its memory until it is done, which is some steps after the abort.

namespace troupe::testing {

/// What a device tells of itself.
struct fake_device_options {
  std::string identity{}; ///< Empty: one that no other device has.
  std::string library_version = "2.28.3";
  /// The call of the device that always fails.
  enum class broken_call {
    none,
    identity,
    make_stream
  } broken = broken_call::none;
};

class fake_nccl : public std::enable_shared_from_this<fake_nccl> {
public:
  struct options {
    unsigned seed = 1;
    /// Queries of events and communicators do some steps. Else only the test
    /// does.
    bool steps_in_queries = false;
    /// `initialize` blocks until `unblock` is called.
    bool blocks_initialize = false;
  };

  explicit fake_nccl(const options& o) : options_{o}, random_{o.seed} {}

  /// Makes the device of a rank.
  std::shared_ptr<communication_device> make_device(fake_device_options o = {});

  /// Does one piece of work. @returns false if nothing can be done.
  bool step();

  /// Lets calls of `initialize` return.
  void unblock() {
    const std::lock_guard locked{lock_};
    options_.blocks_initialize = false;
    unblocked_.notify_all();
  }
  /// The groups of the next communicator that has moved some but not all bytes
  /// of a group stand still until it is aborted.
  void freeze_in_the_middle() {
    const std::lock_guard locked{lock_};
    freezes_next_ = true;
  }
  bool is_frozen() {
    const std::lock_guard locked{lock_};
    return std::ranges::any_of(
      cliques_, [](const auto& one) { return one.second->frozen; });
  }

  /// Lets all communicators fail.
  void fail_communicators(const std::string& text);

  /// A device is lost: it does nothing more, and all calls that use it throw.
  /// @param device counted in the order of `make_device`.
  void lose_device(std::size_t device);
  /// The device that next copies a sum to a tensor is lost before it does.
  void lose_device_at_next_sum() {
    const std::lock_guard locked{lock_};
    loses_device_at_next_sum_ = true;
  }

  /// The next allocation of device memory fails.
  void fail_next_allocation() {
    const std::lock_guard locked{lock_};
    fails_next_allocation_ = true;
  }

  /// The next transfer that is added to a group fails, in the middle of it.
  void fail_next_transfer() {
    const std::lock_guard locked{lock_};
    transfers_until_failure_ = 2;
  }
  bool has_failed_a_transfer() {
    const std::lock_guard locked{lock_};
    return transfers_until_failure_ == 0;
  }
  /// Number of blocks that the driver has allocated while a group was
  /// incomplete. A driver may let such a call wait for the group.
  int late_allocations() {
    const std::lock_guard locked{lock_};
    return late_allocations_;
  }

  /// Sentences about wrong uses of memory, streams and communicators.
  std::set<std::string> violations() {
    const std::lock_guard locked{lock_};
    return violations_;
  }
  /// Text of each group that the device of a rank has started, in order.
  std::vector<std::string> groups_of(std::size_t device) {
    const std::lock_guard locked{lock_};
    return device < groups_.size() ? groups_[device]
                                   : std::vector<std::string>{};
  }
  /// True if a group has moved some but not all of its bytes.
  bool is_in_the_middle_of_a_group();

  /// Returns one of the numbers of calls, while other threads make calls.
  int count(const int& calls) {
    const std::lock_guard locked{lock_};
    return calls;
  }
  int aborts = 0, finalizes = 0, joins = 0; ///< Numbers of calls.
  int initializations = 0; ///< Calls of `initialize`, also those that block.

private:
  friend class fake_event;
  friend class fake_stream;
  friend class fake_communicator;
  friend class fake_device;
  friend class fake_compute_stream;

  struct range {
    const std::byte* begin = nullptr;
    std::size_t bytes = 0;
    bool overlaps(const range& other) const {
      return begin < other.begin + other.bytes && other.begin < begin + bytes;
    }
  };
  enum class progress { none, some, done };
  /// A piece of work in a stream.
  struct work {
    std::function<progress()> run;
    std::vector<range> memory;
  };
  struct transfer {
    enum class kind { send, receive, all_reduce } what = kind::send;
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    std::uint32_t peer = 0;
    dtype type = dtype::uint8;
    std::size_t moved = 0;
    bool is_done() const { return moved == bytes; }
  };
  struct group {
    std::vector<transfer> transfers;
    bool aborted = false;
    transfer* next(transfer::kind what, std::uint32_t peer) {
      const auto it = std::ranges::find_if(transfers, [&](const transfer& x) {
        return x.what == what && x.peer == peer && !x.is_done();
      });
      return it == transfers.end() ? nullptr : &*it;
    }
  };
  using group_ptr = std::shared_ptr<group>;
  /// The ranks of one communicator.
  struct clique {
    std::vector<bool> joined, initialized, finalized;
    std::vector<group_ptr> running;
    bool frozen = false;
    bool has_all(const std::vector<bool>& flags) const {
      return std::ranges::count(flags, false) == 0;
    }
  };
  struct stream_state {
    std::deque<work> queue;
    std::size_t device = 0;
  };

  void query() {
    if (options_.steps_in_queries)
      for (auto n = random_() % 4; n > 0; --n)
        step();
  }
  /// @errors throws device_lost.
  void check_usable(std::size_t device) const {
    if (lost_.contains(device))
      throw device_lost{"cudaEventRecord failed: the card has fallen off the "
                        "bus"};
  }
  progress run(clique& ranks, std::uint32_t rank, const group_ptr& own);
  bool move(clique& ranks, std::uint32_t rank, transfer& x);
  bool reduce(clique& ranks, transfer& x);
  void free(std::byte* memory, std::size_t bytes);
  std::byte* allocate(std::size_t bytes);

  std::recursive_mutex lock_;
  std::condition_variable_any unblocked_;
  options options_;
  std::mt19937 random_;
  std::vector<std::shared_ptr<stream_state>> streams_;
  /// Work that belongs to no stream, such as the end of an initialisation.
  std::vector<std::function<bool()>> background_;
  std::map<communicator_id, std::shared_ptr<clique>> cliques_;
  std::vector<class fake_communicator*> communicators_;
  std::vector<std::vector<std::string>> groups_; ///< By device.
  std::set<std::string> violations_;
  std::set<std::size_t> lost_; ///< Devices.
  bool freezes_next_ = false, fails_next_allocation_ = false;
  bool loses_device_at_next_sum_ = false;
  int transfers_until_failure_ = -1; ///< -1: none fails. 0: one has failed.
  int open_groups_ = 0;              ///< Ended, but not done by the device.
  int late_allocations_ = 0;
  /// Groups that a thread has started and not ended, of any communicator.
  std::map<std::thread::id, int> depths_;
  std::map<std::size_t, std::vector<std::byte*>> free_; ///< By size.
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
};

class fake_event final : public device_event {
public:
  fake_event(std::shared_ptr<fake_nccl> owner, std::size_t device)
    : owner_{std::move(owner)}, device_{device} {}
  bool is_complete() override {
    const std::lock_guard locked{owner_->lock_};
    owner_->check_usable(device_);
    owner_->query();
    return *done;
  }
  std::shared_ptr<bool> done = std::make_shared<bool>(false);

private:
  std::shared_ptr<fake_nccl> owner_;
  const std::size_t device_;
};

class fake_stream final : public device_stream {
public:
  using progress = fake_nccl::progress;

  fake_stream(std::shared_ptr<fake_nccl> owner, std::size_t device)
    : owner_{std::move(owner)},
      state_{std::make_shared<fake_nccl::stream_state>()} {
    const std::lock_guard locked{owner_->lock_};
    state_->device = device;
    owner_->streams_.push_back(state_);
  }

  /// Work that only tests add.
  void call(std::function<void()> fn) {
    add({[fn] { return fn(), progress::done; }, {}});
  }

  device_event_ptr record() override {
    auto event = std::make_shared<fake_event>(owner_, state_->device);
    add({[done = event->done] { return *done = true, progress::done; }, {}});
    return event;
  }
  void wait(const device_event& event) override {
    add({[done = dynamic_cast<const fake_event&>(event).done] {
           return *done ? progress::done : progress::none;
         },
         {}});
  }
  void copy(std::byte* into, const std::byte* from,
            std::size_t bytes) override {
    add({[=] {
           std::memcpy(into, from, bytes);
           return progress::done;
         },
         {{into, bytes}, {from, bytes}}});
  }
  void copy(std::byte* into, const tensor& from) override {
    add({[into, from] {
           std::memcpy(into, from.to({}).raw(), from.bytes());
           return progress::done;
         },
         {{into, from.bytes()}}});
  }
  /// @errors throws device_lost.
  void copy(const tensor& into, const std::byte* from) override {
    const std::lock_guard locked{owner_->lock_};
    if (std::exchange(owner_->loses_device_at_next_sum_, false))
      owner_->lose_device(state_->device);
    owner_->check_usable(state_->device);
    add({[into, from] {
           tensor host{into.spec()};
           std::memcpy(host.raw(), from, host.bytes());
           tensor{into}.copy_from(host);
           return progress::done;
         },
         {{from, into.bytes()}}});
  }
  void add(std::byte* sum, const std::byte* a, const std::byte* b,
           std::size_t elements, dtype type) override {
    const auto bytes = elements * size_of(type);
    add({[=] {
           if (type == dtype::float32)
             add_elements<float>(sum, a, b, elements);
           else
             add_elements<double>(sum, a, b, elements);
           return progress::done;
         },
         {{sum, bytes}, {a, bytes}, {b, bytes}}});
  }

  template <class T>
  static void add_elements(std::byte* sum, const std::byte* a,
                           const std::byte* b, std::size_t elements) {
    const flush_denormals flushing;
    auto* out = reinterpret_cast<T*>(sum);
    for (std::size_t i = 0; i < elements; ++i)
      out[i] =
        reinterpret_cast<const T*>(a)[i] + reinterpret_cast<const T*>(b)[i];
  }

  void add(fake_nccl::work&& item) {
    const std::lock_guard locked{owner_->lock_};
    owner_->check_usable(state_->device);
    state_->queue.push_back(std::move(item));
  }

private:
  std::shared_ptr<fake_nccl> owner_;
  std::shared_ptr<fake_nccl::stream_state> state_;
};

class fake_communicator final : public device_communicator {
public:
  fake_communicator(std::shared_ptr<fake_nccl> owner,
                    std::shared_ptr<fake_nccl::clique> ranks,
                    std::uint32_t rank, std::size_t device)
    : owner_{std::move(owner)},
      ranks_{std::move(ranks)},
      rank_{rank},
      device_{device} {
    owner_->communicators_.push_back(this);
    // The initialisation ends in a step after all ranks have joined.
    owner_->background_.push_back([ranks = ranks_, rank] {
      if (!ranks->has_all(ranks->joined))
        return false;
      ranks->initialized[rank] = true;
      return true;
    });
  }
  ~fake_communicator() override {
    const std::lock_guard locked{owner_->lock_};
    std::erase(owner_->communicators_, this);
    if (!aborted_ && !is_finalized())
      owner_->violations_.insert("a communicator was neither aborted nor "
                                 "finalised");
  }

  communicator_status status() override {
    const std::lock_guard locked{owner_->lock_};
    owner_->query();
    if (!failure.empty())
      return communicator_status::failed;
    const bool busy = !ranks_->initialized[rank_] || *entering_
                      || (ranks_->finalized[rank_] && !is_finalized());
    return busy ? communicator_status::in_progress : communicator_status::ready;
  }
  std::string error() override {
    const std::lock_guard locked{owner_->lock_};
    return failure;
  }

  void group_start() override {
    const std::lock_guard locked{owner_->lock_};
    if (!ranks_->initialized[rank_] || *entering_ || aborted_)
      owner_->violations_.insert("a group started at a communicator that "
                                 "was not ready");
    if (++owner_->depths_[std::this_thread::get_id()] > 1)
      owner_->violations_.insert("a group started in one that was not ended");
    current_ = std::make_shared<fake_nccl::group>();
    text_.clear();
  }
  void abandon_group() noexcept override {
    const std::lock_guard locked{owner_->lock_};
    --owner_->depths_[std::this_thread::get_id()];
    current_.reset();
    stream_ = nullptr;
  }
  void group_end() override {
    const std::lock_guard locked{owner_->lock_};
    --owner_->depths_[std::this_thread::get_id()];
    owner_->groups_[device_].push_back(text_);
    if (!stream_)
      return;
    *entering_ = true;
    ++owner_->open_groups_;
    // The group enters the stream in a later step.
    owner_->background_.push_back(
      [enter = enter_stream(), entering = entering_] {
        if (*entering)
          enter();
        return true;
      });
  }
  void all_reduce(std::byte* elements, std::size_t count, dtype type,
                  device_stream& stream) override {
    add({fake_nccl::transfer::kind::all_reduce, elements, count * size_of(type),
         0, type},
        stream, "sum");
  }
  void send(const std::byte* from, std::size_t bytes, std::uint32_t rank,
            device_stream& stream) override {
    add({fake_nccl::transfer::kind::send, const_cast<std::byte*>(from), bytes,
         rank},
        stream, "send");
  }
  void receive(std::byte* into, std::size_t bytes, std::uint32_t rank,
               device_stream& stream) override {
    add({fake_nccl::transfer::kind::receive, into, bytes, rank}, stream,
        "receive");
  }

  void finalize() override {
    const std::lock_guard locked{owner_->lock_};
    ++owner_->finalizes;
    ranks_->finalized[rank_] = true;
  }
  void abort() noexcept override {
    const std::lock_guard locked{owner_->lock_};
    ++owner_->aborts;
    aborted_ = true;
    if (*entering_)
      enter_stream()();
    for (const auto& one : all_)
      one->aborted = true;
  }

  std::size_t device() const { return device_; }

  std::string failure; ///< Empty: the communicator has not failed.

private:
  bool is_finalized() const { return ranks_->has_all(ranks_->finalized); }

  void add(const fake_nccl::transfer& x, device_stream& stream,
           const std::string& what) {
    const std::lock_guard locked{owner_->lock_};
    if (owner_->transfers_until_failure_ > 0
        && --owner_->transfers_until_failure_ == 0)
      throw device_error{"ncclSend failed: remote process exited"};
    current_->transfers.push_back(x);
    stream_ = dynamic_cast<fake_stream*>(&stream);
    text_ += what + " " + std::to_string(x.bytes) + " ";
  }
  std::function<void()> enter_stream() {
    // The owner owns the work.
    return
      [this, owner = owner_.get(), own = current_, stream = stream_,
       ranks = ranks_, rank = rank_, entering = entering_, device = device_] {
        if (!own || owner->lost_.contains(device))
          return;
        *entering = false;
        all_.push_back(own);
        std::vector<fake_nccl::range> memory;
        for (const auto& x : own->transfers)
          memory.push_back({x.data, x.bytes});
        stream->add({[=] {
                       const auto made = owner->run(*ranks, rank, own);
                       if (made == fake_nccl::progress::done)
                         --owner->open_groups_;
                       return made;
                     },
                     memory});
      };
  }

  std::shared_ptr<fake_nccl> owner_;
  std::shared_ptr<fake_nccl::clique> ranks_;
  std::uint32_t rank_;
  std::size_t device_;
  bool aborted_ = false;
  /// True: the last group is not in the stream yet.
  std::shared_ptr<bool> entering_ = std::make_shared<bool>(false);
  fake_nccl::group_ptr current_;
  std::vector<fake_nccl::group_ptr> all_;
  fake_stream* stream_ = nullptr;
  std::string text_;
};

/// The stream of a device that does all work at the time of the call.
class fake_compute_stream final : public device_stream {
public:
  fake_compute_stream(std::shared_ptr<fake_nccl> owner, std::size_t device)
    : owner_{std::move(owner)}, device_{device} {}

  device_event_ptr record() override {
    check_usable();
    auto event = std::make_shared<fake_event>(owner_, device_);
    *event->done = true;
    return event;
  }
  void wait(const device_event& event) override {
    const std::lock_guard locked{owner_->lock_};
    if (!*dynamic_cast<const fake_event&>(event).done)
      owner_->violations_.insert("a compute stream waits for other work");
  }
  void copy(std::byte* into, const std::byte* from,
            std::size_t bytes) override {
    check_usable();
    std::memcpy(into, from, bytes);
  }
  void copy(std::byte* into, const tensor& from) override {
    check_usable();
    std::memcpy(into, from.to({}).raw(), from.bytes());
  }
  void copy(const tensor& into, const std::byte* from) override {
    check_usable();
    tensor host{into.spec()};
    std::memcpy(host.raw(), from, host.bytes());
    tensor{into}.copy_from(host);
  }
  void add(std::byte* sum, const std::byte* a, const std::byte* b,
           std::size_t elements, dtype type) override {
    if (type == dtype::float32)
      fake_stream::add_elements<float>(sum, a, b, elements);
    else
      fake_stream::add_elements<double>(sum, a, b, elements);
  }

private:
  void check_usable() {
    const std::lock_guard locked{owner_->lock_};
    owner_->check_usable(device_);
  }

  std::shared_ptr<fake_nccl> owner_;
  const std::size_t device_;
};

class fake_device final : public communication_device {
public:
  fake_device(std::shared_ptr<fake_nccl> owner, std::size_t number,
              fake_device_options options)
    : owner_{std::move(owner)}, number_{number}, options_{std::move(options)} {
    if (options_.identity.empty())
      options_.identity = "fake " + std::to_string(number);
  }

  std::string identity() override {
    check(fake_device_options::broken_call::identity, "identity");
    return options_.identity;
  }
  std::string library_version() override { return options_.library_version; }
  std::shared_ptr<device_stream> compute_stream() override {
    return std::make_shared<fake_compute_stream>(owner_, number_);
  }

  communicator_id make_id() override {
    const std::lock_guard locked{owner_->lock_};
    communicator_id id;
    for (auto& x : id)
      x = static_cast<std::byte>(owner_->random_());
    return id;
  }
  std::unique_ptr<device_communicator> initialize(const communicator_id& id,
                                                  std::uint32_t ranks,
                                                  std::uint32_t rank) override {
    std::unique_lock locked{owner_->lock_};
    ++owner_->initializations;
    owner_->unblocked_.wait(
      locked, [this] { return !owner_->options_.blocks_initialize; });
    ++owner_->joins;
    auto& members = owner_->cliques_[id];
    if (!members)
      members = std::make_shared<fake_nccl::clique>(fake_nccl::clique{
        std::vector<bool>(ranks), std::vector<bool>(ranks),
        std::vector<bool>(ranks), std::vector<fake_nccl::group_ptr>(ranks)});
    if (members->joined.size() != ranks || members->joined[rank])
      throw device_error{"rank " + std::to_string(rank)
                         + " joined a communicator twice"};
    members->joined[rank] = true;
    return std::make_unique<fake_communicator>(owner_, members, rank, number_);
  }

  std::shared_ptr<device_stream> make_stream() override {
    check(fake_device_options::broken_call::make_stream, "make_stream");
    const std::lock_guard locked{owner_->lock_};
    owner_->check_usable(number_);
    return std::make_shared<fake_stream>(owner_, number_);
  }
  device_memory allocate(memory_kind kind, std::size_t bytes) override {
    const std::lock_guard locked{owner_->lock_};
    owner_->check_usable(number_);
    if (kind == memory_kind::device
        && std::exchange(owner_->fails_next_allocation_, false))
      throw device_error{"the device has too little memory"};
    return {owner_->allocate(bytes),
            [owner = owner_, bytes](std::byte* memory) {
              owner->free(memory, bytes);
            }};
  }
  tensor tensor_of(const device_memory& memory,
                   const tensor_spec& spec) override {
    const std::lock_guard locked{owner_->lock_};
    tensor out{spec};
    std::memcpy(out.raw(), memory.get(), out.bytes());
    return out;
  }

private:
  void check(fake_device_options::broken_call call, const char* name) const {
    if (options_.broken == call)
      throw device_error{std::string{name} + " failed: the card is broken"};
  }

  std::shared_ptr<fake_nccl> owner_;
  std::size_t number_;
  fake_device_options options_;
};

inline std::shared_ptr<communication_device>
fake_nccl::make_device(fake_device_options o) {
  const std::lock_guard locked{lock_};
  groups_.emplace_back();
  return std::make_shared<fake_device>(shared_from_this(), groups_.size() - 1,
                                       std::move(o));
}

inline bool fake_nccl::step() {
  const std::lock_guard locked{lock_};
  const auto choices = streams_.size() + background_.size();
  const auto first = choices > 0 ? random_() % choices : 0;
  for (std::size_t i = 0; i < choices; ++i) {
    const auto choice = (first + i) % choices;
    if (choice >= streams_.size()) {
      const auto number = choice - streams_.size();
      if (!background_[number]())
        continue;
      background_.erase(background_.begin()
                        + static_cast<std::ptrdiff_t>(number));
      return true;
    }
    const auto stream = streams_[choice];
    if (stream->queue.empty())
      continue;
    const auto made = stream->queue.front().run();
    if (made == progress::done)
      stream->queue.pop_front();
    if (made != progress::none)
      return true;
  }
  return false;
}

inline void fake_nccl::fail_communicators(const std::string& text) {
  const std::lock_guard locked{lock_};
  for (auto* one : communicators_)
    one->failure = text;
}

inline void fake_nccl::lose_device(std::size_t device) {
  const std::lock_guard locked{lock_};
  lost_.insert(device);
  for (const auto& stream : streams_)
    if (stream->device == device)
      stream->queue.clear();
  for (auto* one : communicators_)
    if (one->device() == device)
      one->failure = "unhandled cuda error";
}

inline bool fake_nccl::is_in_the_middle_of_a_group() {
  const std::lock_guard locked{lock_};
  for (const auto& [id, ranks] : cliques_)
    for (const auto& running : ranks->running)
      if (running && !running->aborted)
        for (const auto& x : running->transfers)
          if (x.moved > 0 && !x.is_done())
            return true;
  return false;
}

/// Goes on with a group that is at the front of its stream.
inline fake_nccl::progress fake_nccl::run(clique& ranks, std::uint32_t rank,
                                          const group_ptr& own) {
  if (own->aborted) {
    ranks.running[rank] = nullptr;
    for (const auto& x : own->transfers)
      if (x.what != transfer::kind::send && x.bytes > 0)
        std::memset(x.data + random_() % x.bytes / 2, 0xff, x.bytes / 2);
    return random_() % 3 == 0 ? progress::done : progress::some;
  }
  ranks.running[rank] = own;
  if (freezes_next_
      && std::ranges::any_of(own->transfers, [](const transfer& x) {
           return x.moved > 0 && !x.is_done();
         }))
    ranks.frozen = std::exchange(freezes_next_, false);
  if (ranks.frozen)
    return progress::none;
  bool moved = false, done = true;
  for (auto& x : own->transfers) {
    if (!x.is_done() && !moved)
      moved = move(ranks, rank, x);
    done = done && x.is_done();
  }
  if (done)
    ranks.running[rank] = nullptr;
  return done ? progress::done : moved ? progress::some : progress::none;
}

/// Moves some bytes of a transfer if the other ranks have come to it.
inline bool fake_nccl::move(clique& ranks, std::uint32_t rank, transfer& x) {
  if (x.what == transfer::kind::all_reduce)
    return reduce(ranks, x);
  if (x.what == transfer::kind::send)
    return false; // the receiver moves the bytes
  const auto& sender = ranks.running[x.peer];
  auto* from = sender && !sender->aborted
                 ? sender->next(transfer::kind::send, rank)
                 : nullptr;
  if (!from || from->bytes != x.bytes) // NCCL does not notice other sizes
    return false;
  const auto left = x.bytes - x.moved;
  const auto count = left < 64 ? left : 1 + random_() % left;
  std::memcpy(x.data + x.moved, from->data + x.moved, count);
  x.moved += count;
  from->moved += count;
  return true;
}

/// Adds in an order that is not that of the canonical tree.
inline bool fake_nccl::reduce(clique& ranks, transfer& x) {
  std::vector<transfer*> all;
  for (const auto& one : ranks.running) {
    auto* other =
      one && !one->aborted ? one->next(transfer::kind::all_reduce, 0) : nullptr;
    if (!other || other->bytes != x.bytes)
      return false;
    all.push_back(other);
  }
  const auto elements = x.bytes / size_of(x.type);
  for (std::size_t r = 1; r < all.size(); ++r) {
    if (x.type == dtype::float32)
      fake_stream::add_elements<float>(all[0]->data, all[r]->data, all[0]->data,
                                       elements);
    else
      fake_stream::add_elements<double>(all[0]->data, all[r]->data,
                                        all[0]->data, elements);
  }
  for (auto* one : all) {
    if (one != all[0])
      std::memcpy(one->data, all[0]->data, x.bytes);
    one->moved = one->bytes;
  }
  return true;
}

inline std::byte* fake_nccl::allocate(std::size_t bytes) {
  auto& list = free_[bytes];
  if (list.empty()) {
    late_allocations_ += open_groups_ > 0;
    blocks_.push_back(std::make_unique<std::byte[]>(bytes + 64));
    auto* memory = blocks_.back().get();
    memory += (64 - reinterpret_cast<std::uintptr_t>(memory) % 64) % 64;
    list.push_back(memory);
  }
  auto* memory = list.back(); // the block that was freed last
  list.pop_back();
  std::memset(memory, 0xff, bytes);
  return memory;
}

inline void fake_nccl::free(std::byte* memory, std::size_t bytes) {
  const std::lock_guard locked{lock_};
  for (const auto& stream : streams_)
    for (const auto& item : stream->queue)
      for (const auto& used : item.memory)
        if (used.overlaps({memory, bytes})) {
          violations_.insert(
            "memory was freed while work in a stream accesses it");
          break;
        }
  free_[bytes].push_back(memory);
}

} // namespace troupe::testing
