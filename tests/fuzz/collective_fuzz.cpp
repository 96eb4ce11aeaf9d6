// strategies/collective: packets that a peer repeats, changes or invents; and
// packet headers alone.
#include "troupe/tests/fuzz/fuzz.hpp"
#include "troupe/tests/strategies/collective/packet_queues.hpp"

#include <map>

using namespace troupe::exchange;
using namespace troupe::exchange::testing;

namespace troupe::fuzz {

namespace {

struct task {
  bool gathers = false;
  std::int64_t elements = 0;
  terms said{};
};

/// A tensor of one repeated value, cached because making it is slow.
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

/// Position of a replica in its script.
struct walker {
  std::uint64_t step = 0;
  std::size_t next = 0;
  bool inside = false;
};

/// A job whose process 0 is the victim. A man in the middle changes the packets
/// of the other processes.
class victim {
public:
  explicit victim(choices& from)
    : on_{from.flip() ? std::vector<std::uint32_t>{0, 1, 2}
                      : std::vector<std::uint32_t>{0, 2, 3, 6},
          1 + from.below(3), from.flip()},
      walkers_(on_.who.replicas()) {
    for (auto n = 1 + from.below(3); n > 0; --n)
      script_.push_back(task_of(from));
    on_.seat(epoch_);
  }

  void act(choices& from) {
    const auto what = from.below(16);
    if (what == 15 && from.below(4) == 0)
      return give_up();
    if (what >= 12) {
      walk(std::uint32_t(from.below(walkers_.size())));
      return;
    }
    const auto p = std::uint32_t(what % on_.who.processes());
    std::size_t before[2];
    for (const auto q : {queue::parts, queue::sums})
      before[std::size_t(q)] = on_.office.of(p, 0, q).size();
    on_.pump(p);
    if (p != 0)
      for (const auto q : {queue::parts, queue::sums})
        if (auto& to = on_.office.of(p, 0, q);
            to.size() > before[std::size_t(q)])
          meddle(to, from);
  }

  /// Lets all processes continue as far as possible.
  void finish() {
    // A packet that is fetched in pieces counts only when it is complete.
    for (int idle = 0; idle < 20 && !done(); ++idle) {
      for (std::uint32_t r = 0; r < walkers_.size(); ++r)
        if (walk(r))
          idle = 0;
      for (std::uint32_t p = 0; p < on_.who.processes(); ++p)
        while (on_.pump(p))
          idle = 0;
    }
    const auto& wrong = on_.machines[0]->wrong();
    if (wrong) {
      require(wrong->process != 0 && wrong->process < on_.who.processes(),
              "the accused process is another one");
      require(wrong->why.size() < 400, "an error is one sentence");
      require(!on_.pump(0), "nothing moves after an error");
    }
    require(changed_ || done(), "a repeated packet has no effect");
  }

private:
  /// For no element, one hop, one chunk, three chunks and four chunks.
  static constexpr std::array<std::int64_t, 8> sizes{
    0, 1, 16, 16, 1000, 5'000, 8'200, 13'000};
  static constexpr std::int64_t two_pieces = 66'000; ///< Elements gathered.
  static constexpr std::uint64_t steps = 2;

  static task task_of(choices& from) {
    const auto kind = from.below(4);
    const auto size = from.number<std::uint8_t>();
    return {kind == 0,
            kind == 0 && size >= 0xf8 ? two_pieces : sizes[size % sizes.size()],
            {kind == 1 ? terms::ways::ring : terms::ways::tree}};
  }

  bool done() const {
    return std::ranges::all_of(walkers_,
                               [](const auto& x) { return x.step == steps; });
  }

  /// @returns true if the replica made progress.
  bool walk(std::uint32_t r) {
    auto& x = walkers_[r];
    auto& it = on_.of(r);
    if (x.step == steps)
      return false;
    if (!std::exchange(x.inside, true)) {
      it.enter(r, x.step);
      x.next = 0;
    }
    if (x.next < script_.size()) {
      const auto bucket = std::uint32_t(x.next);
      const auto& now = script_[x.next++];
      const auto n = now.gathers ? now.elements + r : now.elements;
      const auto& part = all_of(std::size_t(n), r + 1);
      now.gathers ? it.gather(r, bucket, part)
                  : it.contribute(r, bucket, part, now.said);
    } else if (on_.settled(r)) {
      check(r);
      it.leave(r);
      x.inside = false;
      ++x.step;
    } else {
      return false;
    }
    return true;
  }

  void check(std::uint32_t r) {
    const auto all = on_.who.replicas();
    for (std::uint32_t bucket = 0; bucket < script_.size(); ++bucket) {
      if (changed_)
        return;
      if (script_[bucket].gathers) {
        const auto got = on_.of(r).gathered(r, bucket);
        for (std::uint32_t of = 0; of < all; ++of)
          require(is_all(got.at(of), of + 1), "a tensor is its owner's");
      } else {
        const auto got = on_.of(r).sum_of(r, bucket);
        require(is_all(got, all * (all + 1) / 2), "a sum is complete");
      }
    }
  }

  /// All replicas leave their steps and begin again in the next generation.
  void give_up() {
    for (std::uint32_t r = 0; r < walkers_.size(); ++r)
      if (std::exchange(walkers_[r].inside, false))
        on_.of(r).leave(r);
    on_.seat(++epoch_);
    const auto first = std::ranges::min(walkers_, {}, &walker::step).step;
    for (auto& x : walkers_)
      x.step = first;
  }

  /// Changes the packet that was posted last and not yet read.
  void meddle(std::deque<letter>& to, choices& from) {
    const bool room = to.size() < on_.office.capacity;
    switch (from.below(8)) {
      case 0:
        if (room)
          to.push_back(to.back());
        break;
      case 1:
        changed_ = true;
        change(to.back(), from);
        break;
      case 2:
        changed_ = true;
        if (room)
          to.push_back(to.back());
        change(to.back(), from);
        break;
      case 3:
        changed_ = true;
        to.pop_back();
        break;
      default:
        break;
    }
  }

  void change(letter& x, choices& from) {
    auto head = read(x.about);
    switch (from.below(14)) {
      case 0:
        head.epoch += from.number<std::uint8_t>() - 2;
        break;
      case 1:
        head.step += from.number<std::uint8_t>() - 2;
        break;
      case 2:
        head.exchange += from.number<std::uint8_t>() - 2;
        break;
      case 3:
        head.chunk += from.number<std::uint8_t>() - 2;
        break;
      case 4:
        head.bucket = from.number<std::uint32_t>();
        break;
      case 5:
        head.from = from.number<std::uint32_t>();
        break;
      case 6:
        head.begin = from.number<std::uint8_t>();
        break;
      case 7:
        head.what = subject(from.number<std::uint8_t>());
        break;
      case 8:
        head.type = dtype(from.number<std::uint8_t>());
        break;
      case 9:
        head.elements = from.number<std::uint64_t>();
        break;
      case 10:
        x.own().resize(1
                       + (from.below(8) == 7 ? most_bytes - 1
                                             : from.number<std::uint16_t>()));
        break;
      case 11:
        if (!x.bytes().empty()) // For a gathered spec: values below 1 MiB.
          x.own()[from.below(std::min<std::size_t>(x.bytes().size(), 10))] =
            std::byte(from.number<std::uint8_t>());
        break;
      case 12: {
        const auto some = from.take(64);
        auto all = write(head);
        std::copy(some.begin(), some.end(), all.begin());
        head = read(all);
        break;
      }
      default:
        from.flip() ? head.zero = from.number<std::uint8_t>()
                    : head.timeout = from.number<std::uint32_t>();
    }
    x.about = write(head);
  }

  house on_;
  std::vector<walker> walkers_;
  std::vector<task> script_;
  std::uint64_t epoch_ = 1;
  bool changed_ = false;
};

void check_spec(view input) {
  share_spec x{};
  std::copy_n(input.begin(), std::min(input.size(), x.size()), x.begin());
  tensor_spec spec;
  if (!read(x, spec))
    return;
  require(spec.dims.elements() * size_of(spec.type) <= most_share,
          "a gather contribution has a maximum size");
  tensor_spec again;
  require(read(write(spec), again) && again == spec,
          "a written value is read as the same value");
}

} // namespace

void try_one(view input) {
  choices from{input};
  if (from.below(8) == 7)
    return check_spec(from.rest());
  victim x{from};
  for (int turns = 0; from.any() && turns < 500; ++turns)
    x.act(from);
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
