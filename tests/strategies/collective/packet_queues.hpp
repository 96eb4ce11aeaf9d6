#pragma once

#include "troupe/strategies/collective/state_machine.hpp"
#include "troupe/strategies/tree/reduction.hpp"

#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

// Simulates several processes in one thread, connected by bounded queues.
// Replicas execute a script in random order.

namespace troupe::exchange::testing {

struct letter {
  head about;
  std::vector<std::byte> copy;
  std::span<const std::byte> lent{}; ///< The sender's memory, if not copied.

  std::span<const std::byte> bytes() const {
    return lent.empty() ? std::span<const std::byte>{copy} : lent;
  }
  /// @returns the payload as a private copy, which a test may change.
  std::vector<std::byte>& own() {
    if (!lent.empty())
      copy.assign(lent.begin(), lent.end());
    lent = {};
    return copy;
  }
};

/// All queues between P processes.
struct post_office {
  post_office(std::uint32_t processes, std::size_t capacity, bool views,
              std::uint64_t seed)
    : all{processes},
      capacity{capacity},
      views{views},
      chance{seed},
      queues(std::size_t{processes} * processes * 2) {}

  std::deque<letter>& of(std::uint32_t from, std::uint32_t to, queue by) {
    return queues[(std::size_t{from} * all + to) * 2 + std::size_t(by)];
  }

  std::uint32_t all;
  std::size_t capacity;
  bool views; ///< If false, payloads are read in pieces.
  std::minstd_rand chance;
  std::vector<std::deque<letter>> queues;
  std::vector<std::size_t> sent = std::vector<std::size_t>(all); ///< Bytes.
  std::size_t most = 0; ///< Maximum length of a queue.
};

class box final : public courier {
public:
  box(post_office& in, std::uint32_t me)
    : in_{in}, me_{me}, rooms_(in.all * 2), read_(in.all * 2) {}

  std::span<std::byte> room(std::uint32_t to, queue by) override {
    if (in_.of(me_, to, by).size() == in_.capacity)
      return {};
    auto& room = rooms_[to * 2 + std::size_t(by)];
    if (!room)
      room = tensor{shape{std::int64_t(most_bytes)}, dtype::uint8};
    return {room.raw(), most_bytes};
  }
  void post(std::uint32_t to, queue by, const head& x,
            std::size_t bytes) override {
    const auto* at = rooms_[to * 2 + std::size_t(by)].raw();
    post(to, by, x, std::span{at, bytes});
  }
  bool post(std::uint32_t to, queue by, const head& x,
            std::span<const std::byte> bytes) override {
    auto& queue = in_.of(me_, to, by);
    if (queue.size() == in_.capacity)
      return false;
    queue.push_back({x, {bytes.begin(), bytes.end()}, {}});
    in_.sent[me_] += bytes.size();
    in_.most = std::max(in_.most, queue.size());
    return true;
  }
  bool lend(std::uint32_t to, queue by, const head& x,
            std::span<const std::byte> bytes) override {
    if (!post(to, by, x, bytes))
      return false;
    auto& last = in_.of(me_, to, by).back();
    last.lent = bytes;
    last.copy.clear();
    return true;
  }
  /// True if no peer may still read zero-copy payloads.
  bool flush() const {
    for (std::uint32_t to = 0; to < in_.all; ++to)
      for (const auto by : {queue::parts, queue::sums})
        for (const auto& x : in_.of(me_, to, by))
          if (!x.lent.empty())
            return false;
    return true;
  }
  const head* front(std::uint32_t from, queue by) override {
    auto& queue = in_.of(from, me_, by);
    return queue.empty() ? nullptr : &queue.front().about;
  }
  std::size_t front_bytes(std::uint32_t from, queue by) override {
    return in_.of(from, me_, by).front().bytes().size();
  }
  std::span<const std::byte> view(std::uint32_t from, queue by) override {
    if (!in_.views)
      return {};
    return in_.of(from, me_, by).front().bytes();
  }
  bool fetch(std::uint32_t from, queue by, std::span<std::byte> into) override {
    const auto bytes = in_.of(from, me_, by).front().bytes();
    auto& progress = read_[from * 2 + std::size_t(by)];
    if (progress.size == 0)
      progress.size = into.size();
    if (progress.size != into.size() || bytes.size() != into.size())
      throw std::logic_error("fetched as another number of bytes");
    if (bytes.empty())
      return true;
    const auto some =
      in_.views ? bytes.size() : 1 + in_.chance() % bytes.size();
    const auto n = std::min(some, bytes.size() - progress.done);
    std::memcpy(into.data() + progress.done, bytes.data() + progress.done, n);
    progress.done += n;
    return progress.done == bytes.size();
  }
  void pop(std::uint32_t from, queue by) override {
    auto& queue = in_.of(from, me_, by);
    auto& progress = read_[from * 2 + std::size_t(by)];
    if (!in_.views && progress.done != queue.front().bytes().size())
      throw std::logic_error("popped before it was fetched");
    progress = {};
    queue.pop_front();
  }

private:
  struct reading {
    std::size_t size = 0;
    std::size_t done = 0;
  };
  post_office& in_;
  std::uint32_t me_;
  std::vector<tensor> rooms_;
  std::vector<reading> read_;
};

/// P state machines and the replicas that they host.
struct house {
  explicit house(std::vector<std::uint32_t> first, std::size_t capacity = 2,
                 bool views = true, std::uint64_t seed = 1)
    : who{std::move(first), 0}, office{who.processes(), capacity, views, seed} {
    for (std::uint32_t p = 0; p < who.processes(); ++p) {
      machines.push_back(std::make_unique<machine>(layout{who.first, p}));
      boxes.push_back(std::make_unique<box>(office, p));
    }
  }

  machine& of(std::uint32_t replica) {
    return *machines[who.process_of(replica)];
  }
  void seat(std::uint64_t epoch) {
    for (std::uint32_t r = 0; r < who.replicas(); ++r)
      of(r).seat(r, epoch);
  }
  void enter(std::uint64_t step) {
    for (std::uint32_t r = 0; r < who.replicas(); ++r)
      of(r).enter(r, step);
  }
  void leave() {
    for (std::uint32_t r = 0; r < who.replicas(); ++r)
      of(r).leave(r);
  }
  bool pump(std::uint32_t process) {
    return machines[process]->pump(*boxes[process]);
  }
  /// Makes progress until nothing moves.
  void pump_all() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::uint32_t p = 0; p < who.processes(); ++p)
        moved |= pump(p);
    }
  }
  bool settled() {
    for (std::uint32_t r = 0; r < who.replicas(); ++r)
      if (!settled(r))
        return false;
    return true;
  }
  bool settled(std::uint32_t replica) {
    if (!of(replica).settled(replica)
        || !boxes[who.process_of(replica)]->flush())
      return false;
    of(replica).given_back();
    return true;
  }

  layout who;
  post_office office;
  std::vector<std::unique_ptr<machine>> machines;
  std::vector<std::unique_ptr<box>> boxes;
};

/// Values of very different size, so that the bits depend on the order of
/// addition.
template <class T>
tensor brought(std::size_t elements, std::uint64_t seed) {
  tensor x{shape{std::int64_t(elements)}, dtype_of<T>};
  auto bits = std::uint32_t(seed * 2654435761u + 1);
  for (auto& v : x.mutable_data<T>()) {
    bits = bits * 1664525u + 1013904223u;
    v = T(std::int32_t(bits)) * T(1u << (bits >> 28));
  }
  return x;
}

using firsts = std::vector<std::uint32_t>;

/// Sum of the inputs [begin, end) by tree/reduction.hpp.
inline tensor tree_of(const tensors& parts, std::uint32_t begin,
                      std::uint32_t end) {
  tree::tree_sum machine{{1, 0, 0, end - begin, 0, 1}};
  tree::reaction what;
  for (auto r = begin; r < end; ++r)
    what = machine.on({{1, 0, 0, r - begin, 0, 0, 1}}, parts[r]);
  while (std::holds_alternative<tree::adding>(what))
    what = machine.work(1 << 20);
  return std::get<tree::finished>(what).sum;
}

/// Sum of all inputs.
inline tensor oracle(const tensors& parts) {
  return tree_of(parts, 0, static_cast<std::uint32_t>(parts.size()));
}

template <class T>
tensors parts_of(std::uint32_t replicas, std::size_t elements,
                 std::uint64_t seed) {
  tensors out;
  for (std::uint32_t r = 0; r < replicas; ++r)
    out.push_back(brought<T>(elements, seed * 1000 + r));
  return out;
}

inline std::string text_of(const firsts& x) {
  std::string out = "replicas from";
  for (const auto r : x)
    out += " " + std::to_string(r);
  return out;
}

} // namespace troupe::exchange::testing
