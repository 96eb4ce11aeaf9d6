// Fuzzes strategies/collective: the state machine with packets that a peer
// repeats or changes, and the parser of tensor descriptions (`gather_spec`).
#include "troupe/tests/fuzz/fuzz.hpp"
#include "troupe/tests/strategies/collective/packet_queues.hpp"

#include <map>

using namespace troupe::collective;
using namespace troupe::collective::testing;

namespace troupe::fuzz {

namespace {

struct task {
  bool gathers = false;
  std::int64_t elements = 0;
  collective_options options{};
};

/// Returns a tensor whose elements are all `value`. Tensors are cached, because
/// to make them is slow.
const tensor& all_of(std::size_t elements, double value) {
  static std::map<std::pair<std::size_t, double>, tensor> made;
  auto& x = made[{elements, value}];
  if (!x)
    x = tensor::full({std::int64_t(elements)}, value);
  return x;
}

bool is_all(const tensor& x, double value) {
  const auto& due = all_of(x.size(), value);
  return x.bytes() == due.bytes() && !memcmp(x.raw(), due.raw(), x.bytes());
}

/// Position of a replica: its step, and its next collective in the script. The
/// script lists the collectives that each replica calls in each step.
struct progress {
  std::uint64_t step = 0;
  std::size_t next = 0;
  bool inside = false;
};

/// A job whose process 0 is under test. Packets of the other processes are
/// changed before process 0 receives them.
class victim {
public:
  explicit victim(choices& source)
    : job_{source.flip() ? std::vector<std::uint32_t>{0, 1, 2}
                         : std::vector<std::uint32_t>{0, 2, 3, 6},
           1 + source.below(3), source.flip()},
      walkers_(job_.placed.replicas()) {
    for (auto n = 1 + source.below(3); n > 0; --n)
      script_.push_back(task_of(source));
    job_.begin_generation(epoch_);
  }

  void act(choices& source) {
    const auto action = source.below(16);
    if (action == 15 && source.below(4) == 0)
      return restart();
    if (action >= 12) {
      walk(std::uint32_t(source.below(walkers_.size())));
      return;
    }
    const auto p = std::uint32_t(action % job_.placed.processes());
    std::size_t before[2];
    for (const auto q : {lane_id::contributions, lane_id::results})
      before[std::size_t(q)] = job_.queues.between(p, 0, q).size();
    job_.progress(p);
    if (p != 0)
      for (const auto q : {lane_id::contributions, lane_id::results})
        if (auto& to = job_.queues.between(p, 0, q);
            to.size() > before[std::size_t(q)])
          meddle(to, source);
  }

  /// Runs all processes as far as possible.
  void finish() {
    // Several rounds, because a packet that is fetched in pieces is progress
    // only when it is complete.
    for (int idle = 0; idle < 20 && !done(); ++idle) {
      for (std::uint32_t r = 0; r < walkers_.size(); ++r)
        if (walk(r))
          idle = 0;
      for (std::uint32_t p = 0; p < job_.placed.processes(); ++p)
        while (job_.progress(p))
          idle = 0;
    }
    const auto& wrong = job_.machines[0]->error();
    if (wrong) {
      require(wrong->process != 0 && wrong->process < job_.placed.processes(),
              "the accused process is another one");
      require(wrong->reason.size() < 400, "an error is one sentence");
      require(!job_.progress(0), "nothing moves after an error");
    }
    require(changed_ || done(), "a repeated packet has no effect");
  }

private:
  /// Numbers of elements of a sum between three processes. A sum of 0 elements
  /// needs no packet. A sum of 1 to 5,000 elements is one chunk. Up to 1,000
  /// elements, with the tree algorithm, every process sends its contribution to
  /// every other process. A sum of 8,200 elements is three chunks, and one of
  /// 13,000 elements is four chunks.
  static constexpr std::array<std::int64_t, 8> sizes{
    0, 1, 16, 16, 1000, 5'000, 8'200, 13'000};
  /// Number of elements of a gather that needs two packets. One packet carries
  /// at most 65,536 floats (256 KiB).
  static constexpr std::int64_t two_pieces = 66'000;
  static constexpr std::uint64_t steps = 2;

  static task task_of(choices& source) {
    const auto kind = source.below(4);
    const auto size = source.number<std::uint8_t>();
    return {kind == 0,
            kind == 0 && size >= 0xf8 ? two_pieces : sizes[size % sizes.size()],
            {kind == 1 ? collective_options::algorithm_kind::ring
                       : collective_options::algorithm_kind::tree}};
  }

  bool done() const {
    return std::ranges::all_of(walkers_,
                               [](const auto& x) { return x.step == steps; });
  }

  /// Executes the next action of a replica.
  /// @returns true if the replica made progress.
  bool walk(std::uint32_t r) {
    auto& replica = walkers_[r];
    auto& machine = job_.machine_of(r);
    if (replica.step == steps)
      return false;
    if (!std::exchange(replica.inside, true)) {
      machine.begin_step(r, replica.step);
      replica.next = 0;
    }
    if (replica.next < script_.size()) {
      const auto bucket = std::uint32_t(replica.next);
      const auto& now = script_[replica.next++];
      const auto n = now.gathers ? now.elements + r : now.elements;
      const auto& part = all_of(std::size_t(n), r + 1);
      now.gathers ? machine.gather(r, bucket, part)
                  : machine.contribute(r, bucket, part, now.options);
    } else if (job_.is_drained(r)) {
      check(r);
      machine.end_step(r);
      replica.inside = false;
      ++replica.step;
    } else {
      return false;
    }
    return true;
  }

  void check(std::uint32_t r) {
    const auto replicas = job_.placed.replicas();
    for (std::uint32_t bucket = 0; bucket < script_.size(); ++bucket) {
      if (changed_)
        return;
      if (script_[bucket].gathers) {
        const auto got = job_.machine_of(r).gathered(r, bucket);
        for (std::uint32_t of = 0; of < replicas; ++of)
          require(is_all(got.at(of), of + 1), "a tensor is its owner's");
      } else {
        const auto got = job_.machine_of(r).sum_of(r, bucket);
        require(is_all(got, replicas * (replicas + 1) / 2),
                "a sum is complete");
      }
    }
  }

  /// Ends the steps of all replicas, and starts them again in the next
  /// generation.
  void restart() {
    for (std::uint32_t r = 0; r < walkers_.size(); ++r)
      if (std::exchange(walkers_[r].inside, false))
        job_.machine_of(r).end_step(r);
    job_.begin_generation(++epoch_);
    const auto first = std::ranges::min(walkers_, {}, &progress::step).step;
    for (auto& x : walkers_)
      x.step = first;
  }

  /// Repeats, changes or removes the packet that was posted last, or leaves it.
  void meddle(std::deque<queued_packet>& queued, choices& source) {
    const bool has_space = queued.size() < job_.queues.capacity;
    switch (source.below(8)) {
      case 0:
        if (has_space)
          queued.push_back(queued.back());
        break;
      case 1:
        changed_ = true;
        change(queued.back(), source);
        break;
      case 2:
        changed_ = true;
        if (has_space)
          queued.push_back(queued.back());
        change(queued.back(), source);
        break;
      case 3:
        changed_ = true;
        queued.pop_back();
        break;
      default:
        break;
    }
  }

  void change(queued_packet& packet, choices& source) {
    auto head = read(packet.header);
    switch (source.below(14)) {
      case 0:
        head.generation += source.number<std::uint8_t>() - 2;
        break;
      case 1:
        head.step += source.number<std::uint8_t>() - 2;
        break;
      case 2:
        head.sequence += source.number<std::uint8_t>() - 2;
        break;
      case 3:
        head.chunk += source.number<std::uint8_t>() - 2;
        break;
      case 4:
        head.bucket = source.number<std::uint32_t>();
        break;
      case 5:
        head.sender = source.number<std::uint32_t>();
        break;
      case 6:
        head.begin = source.number<std::uint8_t>();
        break;
      case 7:
        head.kind = packet_kind(source.number<std::uint8_t>());
        break;
      case 8:
        head.type = dtype(source.number<std::uint8_t>());
        break;
      case 9:
        head.elements = source.number<std::uint64_t>();
        break;
      case 10:
        packet.private_copy().resize(1
                                     + (source.below(8) == 7
                                          ? max_packet_bytes - 1
                                          : source.number<std::uint16_t>()));
        break;
      case 11:
        // Changes one of the first 10 bytes. In a `gather_spec`, they contain
        // the rank, the dtype and the lowest 16 bits of the first extent. So
        // the described tensor stays smaller than 1 MiB.
        if (!packet.bytes().empty())
          packet.private_copy()[source.below(
            std::min<std::size_t>(packet.bytes().size(), 10))] =
            std::byte(source.number<std::uint8_t>());
        break;
      case 12: {
        const auto some = source.take(64);
        auto all = write(head);
        std::copy(some.begin(), some.end(), all.begin());
        head = read(all);
        break;
      }
      default:
        source.flip() ? head.tensors = source.number<std::uint8_t>()
                      : head.timeout = source.number<std::uint32_t>();
    }
    packet.header = write(head);
  }

  process_group job_;
  std::vector<progress> walkers_;
  std::vector<task> script_;
  std::uint64_t epoch_ = 1;
  bool changed_ = false;
};

void check_spec(view input) {
  gather_spec x{};
  std::copy_n(input.begin(), std::min(input.size(), x.size()), x.begin());
  tensor_spec spec;
  if (!read(x, spec))
    return;
  require(spec.dims.elements() * size_of(spec.type) <= max_gather_bytes,
          "a gather contribution has a maximum size");
  tensor_spec again;
  require(read(write(spec), again) && again == spec,
          "a written value is read as the same value");
}

} // namespace

void try_one(view input) {
  choices source{input};
  if (source.below(8) == 7)
    return check_spec(source.rest());
  victim x{source};
  for (int turns = 0; source.any() && turns < 500; ++turns)
    x.act(source);
  x.finish();
}

std::vector<bytes> seeds() {
  const auto spec = write(tensor_spec{{3, 4}, dtype::int64});
  return {
    joined({7}, spec),
    joined({0, 0, 1, 0, 2, 1, 3, 0, 5, 12, 0, 12, 1, 12, 2, 12, 3, 1, 0}),
    joined({0, 1, 1, 1, 1, 1, 4, 12, 0, 12, 1, 1, 0, 1, 0, 0, 1, 0, 1, 0}),
    joined({0, 1, 1, 0, 1, 0, 2, 12, 0, 12, 1, 1, 1, 11, 9, 1, 0, 1, 0}),
    joined({0, 0,  2, 1,  2, 1, 3, 1, 5,   1, 4, 12, 0, 12, 1, 12, 2, 12,
            3, 12, 4, 12, 5, 1, 2, 4, 200, 2, 0, 15, 0, 1,  1, 0,  3}),
  };
}

} // namespace troupe::fuzz
