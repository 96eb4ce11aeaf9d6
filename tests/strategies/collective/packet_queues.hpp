#pragma once

#include "troupe/strategies/collective/state_machine.hpp"
#include "troupe/strategies/tree/reduction.hpp"
#include "troupe/tests/support/placements.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

// Simulates several processes in one thread. Bounded queues connect the
// processes.

namespace troupe::collective::testing {

struct queued_packet {
  packet_header_bytes header;
  std::vector<std::byte> copy;
  /// Memory of the sender, for a packet that was sent without a copy.
  std::span<const std::byte> zero_copy{};

  std::span<const std::byte> bytes() const {
    return zero_copy.empty() ? std::span<const std::byte>{copy} : zero_copy;
  }
  /// Returns a copy of the payload that a test may change.
  std::vector<std::byte>& private_copy() {
    if (!zero_copy.empty())
      copy.assign(zero_copy.begin(), zero_copy.end());
    zero_copy = {};
    return copy;
  }
};

/// All queues between P processes.
struct packet_queues {
  packet_queues(std::uint32_t processes, std::size_t capacity, bool views,
                std::uint64_t seed)
    : process_count{processes},
      capacity{capacity},
      has_views{views},
      random{seed},
      queues(std::size_t{processes} * processes * 2) {}

  /// A packet of this number that was checked, from 0, may have changed.
  std::optional<std::size_t> changed;
  std::optional<std::uint32_t> receiver_of_changed; ///< None: not checked yet.
  std::size_t checked = 0; ///< Packets that were checked.
  std::size_t packets = 0; ///< Packets that were sent.
  /// The payload of a packet changes as soon as the packet was checked. No
  /// packet is sent without a copy.
  bool changes_when_checked = false;

  std::deque<queued_packet>& between(std::uint32_t sender,
                                     std::uint32_t receiver, lane_id lane) {
    return queues[(std::size_t{sender} * process_count + receiver) * 2
                  + std::size_t(lane)];
  }

  std::uint32_t process_count;
  std::size_t capacity;
  /// True: the receiver views payloads. False: it reads payloads in pieces.
  bool has_views;
  std::minstd_rand random;
  std::vector<std::deque<queued_packet>> queues;
  /// Number of bytes that each process has sent.
  std::vector<std::size_t> sent = std::vector<std::size_t>(process_count);
  /// Maximum number of packets that a queue has held so far.
  std::size_t max_length = 0;
};

class queue_transport final : public packet_transport {
public:
  queue_transport(packet_queues& in, std::uint32_t me)
    : queues_{in},
      rank_{me},
      buffers_(in.process_count * 2),
      lost_(in.process_count * 2),
      reads_(in.process_count * 2) {}

  std::span<std::byte> reserve(std::uint32_t peer, lane_id lane) override {
    if (queues_.between(rank_, peer, lane).size() == queues_.capacity)
      return {};
    auto& output = buffers_[peer * 2 + std::size_t(lane)];
    if (!output)
      output = tensor{shape{std::int64_t(max_packet_bytes)}, dtype::uint8};
    return {output.raw(), max_packet_bytes};
  }
  void send(std::uint32_t peer, lane_id lane, const packet_header_bytes& header,
            std::size_t bytes) override {
    const auto* at = buffers_[peer * 2 + std::size_t(lane)].raw();
    send(peer, lane, header, std::span{at, bytes});
  }
  bool send(std::uint32_t peer, lane_id lane, const packet_header_bytes& header,
            std::span<const std::byte> bytes) override {
    auto& queue = queues_.between(rank_, peer, lane);
    if (queue.size() == queues_.capacity)
      return false;
    queue.push_back({header, {bytes.begin(), bytes.end()}, {}});
    queues_.sent[rank_] += bytes.size();
    ++queues_.packets;
    queues_.max_length = std::max(queues_.max_length, queue.size());
    return true;
  }
  bool send_zero_copy(std::uint32_t peer, lane_id lane,
                      const packet_header_bytes& header,
                      std::span<const std::byte> bytes) override {
    if (!send(peer, lane, header, bytes))
      return false;
    if (queues_.changes_when_checked)
      return true;
    auto& last = queues_.between(rank_, peer, lane).back();
    last.zero_copy = bytes;
    last.copy.clear();
    return true;
  }
  /// True if the peers have read all zero-copy payloads of this process.
  bool all_read() const {
    for (std::uint32_t to = 0; to < queues_.process_count; ++to)
      for (const auto by : {lane_id::contributions, lane_id::results})
        for (const auto& x : queues_.between(rank_, to, by))
          if (!x.zero_copy.empty())
            return false;
    return true;
  }
  const packet_header_bytes* front(std::uint32_t peer, lane_id lane) override {
    auto& queue = queues_.between(peer, rank_, lane);
    return queue.empty() || lost_[index(peer, lane)] ? nullptr
                                                     : &queue.front().header;
  }
  std::size_t front_bytes(std::uint32_t peer, lane_id lane) override {
    return queues_.between(peer, rank_, lane).front().bytes().size();
  }
  std::span<const std::byte> view(std::uint32_t peer, lane_id lane) override {
    if (!queues_.has_views)
      return {};
    return queues_.between(peer, rank_, lane).front().bytes();
  }
  bool read_into(std::uint32_t peer, lane_id lane,
                 std::span<std::byte> into) override {
    const auto bytes = queues_.between(peer, rank_, lane).front().bytes();
    auto& progress = reads_[peer * 2 + std::size_t(lane)];
    if (progress.size == 0)
      progress.size = into.size();
    if (progress.size != into.size() || bytes.size() != into.size())
      throw std::logic_error("fetched as another number of bytes");
    if (bytes.empty())
      return true;
    const auto some =
      queues_.has_views ? bytes.size() : 1 + queues_.random() % bytes.size();
    const auto n = std::min(some, bytes.size() - progress.done);
    std::memcpy(into.data() + progress.done, bytes.data() + progress.done, n);
    progress.done += n;
    return progress.done == bytes.size();
  }
  bool is_intact(std::uint32_t peer, lane_id lane) override {
    auto& packet = queues_.between(peer, rank_, lane).front();
    if (queues_.changes_when_checked)
      std::ranges::fill(packet.copy, std::byte{0xff});
    if (queues_.checked++ == queues_.changed) {
      queues_.receiver_of_changed = rank_;
      lost_[index(peer, lane)] = true;
    }
    return !lost_[index(peer, lane)];
  }
  void pop(std::uint32_t peer, lane_id lane) override {
    auto& queue = queues_.between(peer, rank_, lane);
    auto& progress = reads_[peer * 2 + std::size_t(lane)];
    if (!queues_.has_views && progress.done != queue.front().bytes().size())
      throw std::logic_error("popped before it was fetched");
    progress = {};
    queue.pop_front();
  }

private:
  struct reading {
    std::size_t size = 0;
    std::size_t done = 0;
  };
  static std::size_t index(std::uint32_t peer, lane_id lane) {
    return peer * 2 + std::size_t(lane);
  }

  packet_queues& queues_;
  std::uint32_t rank_;
  std::vector<tensor> buffers_;
  /// By peer and lane: a packet may have changed, and is lost with all later
  /// ones.
  std::vector<bool> lost_;
  std::vector<reading> reads_;
};

/// P state machines and the replicas that they host.
struct process_group {
  explicit process_group(const std::vector<std::uint32_t>& first,
                         std::size_t capacity = 2, bool views = true,
                         std::uint64_t seed = 1)
    : process_group{troupe::testing::placement_of(first), capacity, views,
                    seed} {}
  explicit process_group(placement job_placement, std::size_t capacity = 2,
                         bool views = true, std::uint64_t seed = 1)
    : placed{std::move(job_placement)},
      queues{placed.processes(), capacity, views, seed} {
    for (std::uint32_t p = 0; p < placed.processes(); ++p) {
      machines.push_back(
        std::make_unique<state_machine>(local_placement{placed, p}));
      transports.push_back(std::make_unique<queue_transport>(queues, p));
    }
  }

  state_machine& machine_of(std::uint32_t replica) {
    return *machines[placed.process_of(replica)];
  }
  void begin_generation(std::uint64_t generation) {
    for (std::uint32_t r = 0; r < placed.replicas(); ++r)
      machine_of(r).begin_generation(r, generation);
  }
  void begin_step(std::uint64_t step) {
    for (std::uint32_t r = 0; r < placed.replicas(); ++r)
      machine_of(r).begin_step(r, step);
  }
  void end_step() {
    for (std::uint32_t r = 0; r < placed.replicas(); ++r)
      machine_of(r).end_step(r);
  }
  bool progress(std::uint32_t process) {
    return machines[process]->progress(*transports[process]);
  }
  /// Lets all processes make progress until no process can.
  void progress_all() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::uint32_t p = 0; p < placed.processes(); ++p)
        moved |= progress(p);
    }
  }
  bool is_drained() {
    for (std::uint32_t r = 0; r < placed.replicas(); ++r)
      if (!is_drained(r))
        return false;
    return true;
  }
  bool is_drained(std::uint32_t replica) {
    if (!machine_of(replica).is_drained(replica)
        || !transports[placed.process_of(replica)]->all_read())
      return false;
    machine_of(replica).release_zero_copy();
    return true;
  }

  placement placed;
  packet_queues queues;
  std::vector<std::unique_ptr<state_machine>> machines;
  std::vector<std::unique_ptr<queue_transport>> transports;
};

/// Makes values of very different size, so that the bits of a sum depend on the
/// order of addition.
template <class T>
tensor input_of(std::size_t elements, std::uint64_t seed) {
  tensor result{shape{std::int64_t(elements)}, dtype_of<T>};
  auto bits = std::uint32_t(seed * 2654435761u + 1);
  for (auto& v : result.mutable_data<T>()) {
    bits = bits * 1664525u + 1013904223u;
    v = T(std::int32_t(bits)) * T(1u << (bits >> 28));
  }
  return result;
}

using firsts = std::vector<std::uint32_t>;

/// Returns the sum of inputs [begin, end), computed by tree/reduction.hpp.
inline tensor tree_of(const tensors& inputs, std::uint32_t begin,
                      std::uint32_t end) {
  tree::reduction machine{{1, 0, 0, end - begin, 0, 1}};
  tree::reaction outcome;
  for (auto r = begin; r < end; ++r)
    outcome = machine.on({{1, 0, 0, r - begin, 0, 0, 1}}, inputs[r]);
  while (std::holds_alternative<tree::reducing>(outcome))
    outcome = machine.reduce_some(1 << 20);
  return std::get<tree::finished>(outcome).sum;
}

/// Returns the sum of all inputs, computed by tree/reduction.hpp.
inline tensor oracle(const tensors& inputs) {
  return tree_of(inputs, 0, static_cast<std::uint32_t>(inputs.size()));
}

template <class T>
tensors inputs_of(std::uint32_t replicas, std::size_t elements,
                  std::uint64_t seed) {
  tensors out;
  for (std::uint32_t r = 0; r < replicas; ++r)
    out.push_back(input_of<T>(elements, seed * 1000 + r));
  return out;
}

inline std::string text_of(const placement& x) {
  std::string out = "replicas";
  for (std::uint32_t p = 0; p < x.processes(); ++p) {
    out += p == 0 ? " " : " | ";
    for (const auto r : x.replicas_of(p))
      out += std::to_string(r) + " ";
  }
  return out;
}

/// Placements of the given first replicas of each process, and some that
/// scatter the replicas.
inline std::vector<placement>
with_scattered(const std::vector<firsts>& contiguous) {
  std::vector<placement> out;
  for (const auto& first : contiguous)
    out.push_back(troupe::testing::placement_of(first));
  using lists = std::vector<placement::id_list>;
  for (const auto& ids :
       {lists{{1}, {0}}, lists{{0, 2}, {1, 3}}, lists{{1, 2}, {0, 3}},
        lists{{4, 5, 6, 7}, {0, 1, 2, 3}}, lists{{0, 4}, {1, 2, 3}},
        lists{{2}, {0, 1, 5}, {3, 4}}, lists{{3, 0}, {4, 1, 6}, {2, 5}},
        lists{{0, 5, 6, 7}, {2, 3}, {1}, {4, 8}}})
    out.emplace_back(ids);
  return out;
}

inline std::string reason_of(const state_machine& x) {
  return x.error() ? x.error()->reason : "nothing is wrong";
}

inline tensor ones(std::int64_t elements) {
  return tensor::full({elements}, 1);
}

} // namespace troupe::collective::testing
