#include "troupe/training/strategies/state_transfer/state_source.hpp"

#include "troupe/net/base/descriptor.hpp"
#include "troupe/training/strategies/state_transfer/state_item.hpp"

#include <algorithm>
#include <deque>
#include <exception>
#include <iterator>
#include <mutex>
#include <optional>
#include <sys/eventfd.h>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace troupe {

using namespace std::chrono_literals;

namespace {

/// Elements of a tensor that one transfer carries.
constexpr std::size_t part_elements = std::size_t{1} << 22;
/// A process that receives nothing for this time does not follow any more. Nor
/// does one to which nothing could be sent for twice this time: it asks to join
/// earlier.
constexpr auto idle_timeout = 30s;

/// Memory for gradients that is allocated before the first step, but at least
/// for `max_waiting` of them. The rest up to `waiting_bytes` is allocated when
/// it is needed.
constexpr std::size_t initial_gradient_bytes = std::size_t{32} << 20;

/// State or gradient that waits to be sent.
struct copied_step {
  state_item header; ///< Without part.
  std::vector<tensor> parts;
};

/// A process that follows. The lock of `impl` guards the members.
struct follower {
  enum class phase : std::uint8_t {
    opening,   ///< Its thread allocates the memory.
    waiting,   ///< The memory is there, the state is not.
    following, ///< It has the state, or will get it.
    ended,     ///< Nothing is added any more.
  };
  phase current = phase::opening;
  std::vector<tensor> state;     ///< Memory for one copy.
  std::vector<tensor> unused;    ///< Memory that its thread frees.
  std::vector<tensor> free_sums; ///< Memory for gradients.
  std::size_t gradients = 0;     ///< Number for which memory was allocated.
  std::uint64_t steps = 0;       ///< Steps of the last copy.
  std::deque<copied_step> queue; ///< Steps to be sent.
};

/// Returns the part from element `first` of tensor `index` on, and moves on.
state_item next_part(const copied_step& from, std::size_t& index,
                     std::size_t& first, std::size_t waiting) {
  auto out = from.header;
  out.waiting = waiting;
  if (from.parts.empty())
    return out;
  const auto& whole = from.parts[index];
  const auto n = std::min(part_elements, whole.size() - first);
  out.part = whole.range(first, first + n);
  out.first = first;
  out.total = whole.size();
  out.tensor = static_cast<std::uint32_t>(index);
  out.tensors = static_cast<std::uint32_t>(from.parts.size());
  first += n;
  if (first == whole.size()) {
    ++index;
    first = 0;
  }
  return out;
}

} // namespace

struct state_source::impl {
  explicit impl(std::unique_ptr<state_lanes> opened)
    : lanes{std::move(opened)} {}

  /// A thread and the process that it serves.
  struct served {
    follower state;
    net::descriptor wake{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    std::thread thread;
    bool finished = false;
  };

  void accept(state_lanes::opener open, std::atomic<bool>& followed);
  void serve(served& self, const state_lanes::opener& open,
             std::atomic<bool>& followed);
  void send_all(served& self, transfer_lane& lane, std::atomic<bool>& followed);
  bool allocate(served& self, std::atomic<bool>& followed);
  void allocate_gradient(served& self);
  void take_back(follower& x, copied_step&& sent);
  void copy_for(served& one, const update& x);
  void finish(served& one, const std::string& why);
  void update_flag(std::atomic<bool>& followed) const;

  const std::unique_ptr<state_lanes> lanes;

  std::mutex lock; // guards the members below
  bool stopped = false;
  std::uint64_t call = 0;
  /// Elements and tensors of the call. Zero: there is no call.
  std::size_t elements = 0, tensors = 0;
  std::vector<std::shared_ptr<served>> all;
};

state_source::state_source(std::unique_ptr<state_lanes> lanes)
  : impl_{std::make_unique<impl>(std::move(lanes))} {
  impl_->lanes->serve([this](state_lanes::opener open) {
    impl_->accept(std::move(open), followed_);
  });
}

state_source::~state_source() {
  impl_->lanes->serve([](const state_lanes::opener&) {});
  std::vector<std::shared_ptr<impl::served>> ended;
  {
    const std::lock_guard hold{impl_->lock};
    impl_->stopped = true;
    for (const auto& x : impl_->all)
      ::eventfd_write(x->wake.get(), 1);
    ended.swap(impl_->all);
  }
  for (const auto& x : ended)
    x->thread.join();
}

state_lanes& state_source::lanes() {
  return *impl_->lanes;
}

void state_source::begin(std::uint64_t call, std::size_t elements,
                         std::size_t tensors) {
  const std::lock_guard hold{impl_->lock};
  impl_->call = call;
  impl_->elements = elements;
  impl_->tensors = tensors;
  for (const auto& x : impl_->all)
    ::eventfd_write(x->wake.get(), 1);
}

void state_source::pause() {
  const std::lock_guard hold{impl_->lock};
  for (const auto& x : impl_->all) {
    if (x->state.current != follower::phase::following)
      continue;
    state_item stop;
    stop.what = state_item::kind::paused;
    stop.call = impl_->call;
    stop.steps = x->state.steps;
    x->state.queue.push_back({std::move(stop), {}});
    ::eventfd_write(x->wake.get(), 1);
  }
}

void state_source::end() {
  const std::lock_guard hold{impl_->lock};
  impl_->elements = 0;
  for (const auto& x : impl_->all)
    if (x->state.current != follower::phase::opening)
      impl_->finish(*x, "the call has ended");
  impl_->update_flag(followed_);
}

void state_source::on_update(const update& x) {
  std::vector<std::shared_ptr<impl::served>> all;
  {
    const std::lock_guard hold{impl_->lock};
    all = impl_->all;
  }
  for (const auto& one : all)
    impl_->copy_for(*one, x);
  const std::lock_guard hold{impl_->lock};
  impl_->update_flag(followed_);
}

/// Copies what an update has changed. The lock is not held meanwhile, because
/// the thread of the network needs it, too.
void state_source::impl::copy_for(served& one, const update& x) {
  using enum follower::phase;
  auto& to = one.state;
  copied_step added;
  {
    const std::lock_guard hold{lock};
    if (to.current != waiting && to.current != following)
      return;
    auto& header = added.header;
    header.call = call;
    header.steps = x.steps;
    header.examples = x.examples;
    header.learning_rate = x.learning_rate;
    if (to.current == waiting) {
      header.what = state_item::kind::values;
      added.parts = std::exchange(to.state, {});
    } else if (x.steps != to.steps + 1) {
      return finish(one, "the source has copied a step itself");
    } else if (x.is_skipped) {
      header.what = state_item::kind::skipped;
    } else if (to.free_sums.empty()) {
      return finish(one, "this process does not keep up with the steps");
    } else {
      header.what = state_item::kind::sums;
      added.parts.push_back(std::move(to.free_sums.back()));
      to.free_sums.pop_back();
    }
    to.current = following;
    to.steps = x.steps;
  }
  if (added.header.what == state_item::kind::values) {
    for (std::size_t i = 0; i < x.state.size(); ++i)
      added.parts[i].copy_from(x.state[i]);
  } else if (added.header.what == state_item::kind::sums) {
    for (const auto& [first, sums] : x.sums)
      added.parts[0].range(first, first + sums.size()).copy_from(sums);
  }
  const std::lock_guard hold{lock};
  if (to.current != following)
    return;
  to.queue.push_back(std::move(added));
  ::eventfd_write(one.wake.get(), 1);
}

/// Nothing follows what already waits. @pre the lock is held.
void state_source::impl::finish(served& one, const std::string& why) {
  auto& x = one.state;
  if (std::exchange(x.current, follower::phase::ended)
      == follower::phase::ended)
    return;
  state_item last;
  last.what = state_item::kind::ended;
  last.call = call;
  last.text = why;
  x.queue.push_back({std::move(last), {}});
  // Another thread frees the memory, without the lock.
  std::ranges::move(x.state, std::back_inserter(x.unused));
  std::ranges::move(x.free_sums, std::back_inserter(x.unused));
  x.state.clear();
  x.free_sums.clear();
  ::eventfd_write(one.wake.get(), 1);
}

/// @pre the lock is held.
void state_source::impl::update_flag(std::atomic<bool>& followed) const {
  followed = std::ranges::any_of(all, [](const auto& x) {
    return x->state.current == follower::phase::waiting
           || x->state.current == follower::phase::following;
  });
}

void state_source::impl::accept(state_lanes::opener open,
                                std::atomic<bool>& followed) {
  const std::lock_guard hold{lock};
  std::erase_if(all, [](const auto& x) {
    if (x->finished)
      x->thread.join();
    return x->finished;
  });
  if (stopped || all.size() >= max_followers)
    return; // the stream ends
  auto added = std::make_shared<served>();
  all.reserve(all.size() + 1);
  try {
    added->thread = std::thread{[this, &self = *added, open = std::move(open),
                                 &followed] { serve(self, open, followed); }};
  } catch (const std::system_error&) {
    return; // too many threads; the stream ends
  }
  all.push_back(std::move(added));
}

/// Runs on the thread of a process that follows.
void state_source::impl::serve(served& self, const state_lanes::opener& open,
                               std::atomic<bool>& followed) {
  try {
    const auto lane = open();
    send_all(self, *lane, followed);
  } catch (const std::exception&) {
    // The process sees the end of the lane, and takes another source.
  }
  follower freed;
  const std::lock_guard hold{lock};
  freed = std::exchange(self.state, {});
  self.state.current = follower::phase::ended;
  self.finished = true;
  update_flag(followed);
}

/// Allocates the memory for copies, unless there is no call. The pages are
/// touched here, so that the replica does not wait for them.
/// @returns false if there is no call.
bool state_source::impl::allocate(served& self, std::atomic<bool>& followed) {
  std::unique_lock hold{lock};
  const auto [n, count] = std::pair{elements, tensors};
  if (n == 0)
    return false;
  hold.unlock();
  std::vector<tensor> state, sums;
  const shape dims{static_cast<std::int64_t>(n)};
  for (std::size_t i = 0; i < count; ++i)
    state.push_back(tensor::zeros(dims));
  while (sums.size() < max_waiting
         || sums.size() * n * sizeof(float) < initial_gradient_bytes)
    sums.push_back(tensor::zeros(dims));
  hold.lock();
  if (elements != n || tensors != count)
    return false;
  self.state.state = std::move(state);
  self.state.gradients = sums.size();
  self.state.free_sums = std::move(sums);
  self.state.current = follower::phase::waiting;
  update_flag(followed);
  return true;
}

/// Allocates memory for one more gradient if little is free.
void state_source::impl::allocate_gradient(served& self) {
  auto& x = self.state;
  const auto n = [&] {
    const std::lock_guard hold{lock};
    const auto bytes = x.gradients * elements * sizeof(float);
    return x.current == follower::phase::following && bytes < waiting_bytes
               && x.free_sums.size() < max_waiting
             ? elements
             : 0;
  }();
  if (n == 0)
    return;
  auto added = tensor::zeros({static_cast<std::int64_t>(n)});
  const std::lock_guard hold{lock};
  if (x.current != follower::phase::following || elements != n)
    return;
  x.free_sums.push_back(std::move(added));
  ++x.gradients;
}

/// Sends what was copied, one part after the other: a lane takes turns between
/// transfers, so several of them would not arrive in their order.
void state_source::impl::send_all(served& self, transfer_lane& lane,
                                  std::atomic<bool>& followed) {
  std::optional<copied_step> current; // is sent in parts
  std::size_t index = 0, first = 0;   // of the next part
  bool is_sending = false, is_allocated = false;
  auto last_news = std::chrono::steady_clock::now();
  for (;;) {
    std::vector<tensor> freed;
    {
      const std::lock_guard hold{lock};
      if (stopped)
        return;
      freed.swap(self.state.unused);
    }
    freed.clear();
    for (const auto& event : lane.progress()) {
      if (!std::holds_alternative<tensor_transfer::delivered>(event))
        return; // the peer refuses, or violates the protocol
      last_news = std::chrono::steady_clock::now();
      is_sending = false;
      if (current->header.what == state_item::kind::ended)
        return;
      if (index == current->parts.size())
        take_back(self.state, *std::exchange(current, {}));
    }
    const auto silence = std::chrono::steady_clock::now() - last_news;
    if (lane.failure() || silence > (is_sending ? 1 : 2) * idle_timeout)
      return;
    if (!is_allocated)
      is_allocated = allocate(self, followed);
    std::size_t waiting = 0;
    if (!is_sending) {
      const std::lock_guard hold{lock};
      if (!current && !self.state.queue.empty()) {
        current = std::move(self.state.queue.front());
        self.state.queue.pop_front();
        index = first = 0;
      }
      waiting = self.state.queue.size();
    }
    if (!is_sending && current) {
      lane.sender().send(
        state_channel, 0,
        to_transfer(next_part(*current, index, first, waiting)));
      is_sending = true;
      last_news = std::chrono::steady_clock::now();
      continue;
    }
    allocate_gradient(self);
    lane.wait(100ms, self.wake.get());
    eventfd_t count = 0;
    ::eventfd_read(self.wake.get(), &count);
  }
}

/// The memory of a gradient is free when it has arrived.
void state_source::impl::take_back(follower& x, copied_step&& sent) {
  const std::lock_guard hold{lock};
  if (sent.header.what == state_item::kind::sums
      && x.current == follower::phase::following)
    x.free_sums.push_back(std::move(sent.parts.front()));
}

} // namespace troupe
