// net/shm_lane: a segment that the peer changes at any time.
#include "troupe/tests/fuzz/fuzz.hpp"
#include "troupe/tests/net/lanes/lanes.hpp"

using namespace troupe::net;
using namespace troupe::net::testing;

namespace troupe::fuzz {

namespace {

/// The control stream beside the lane: silent, or closed.
class beside final : public stream {
public:
  explicit beside(const bool& closed) : closed_{closed} {}
  moved read_some(std::span<std::byte>) override {
    return {0, closed_ ? status::closed : status::wants_read};
  }
  moved write_some(view, view) override { return {0, status::wants_write}; }
  bool has_buffered() const override { return false; }
  int descriptor() const override { return -1; }
  std::string problem() const override { return ""; }
  void close() override {}

private:
  const bool& closed_;
};

shm_grounds& grounds() {
  static shm_grounds all{few_slots, true};
  return all;
}

/// A lane, its owner, and the peer's segment.
class owner {
public:
  void act(choices& from) {
    switch (from.below(10)) {
      case 0:
        return post(from, false);
      case 1:
        return post(from, true);
      case 2:
      case 3:
        return take(from);
      case 4:
        watched_.clear();
        me_.before_sleep(watched_);
        require(watched_.size() <= 2, "a lane watches two descriptors");
        return me_.after_sleep();
      case 5:
        me_.ended();
        return;
      default:
        write(from);
    }
  }

  void finish() {
    if (const auto& end = me_.ended(); end && end->how == ending::broken)
      require(!me_.front() || had_front_,
              "no packet arrives over a broken lane");
  }

private:
  void post(choices& from, bool in_place) {
    const auto size = from.number<std::uint16_t>();
    const auto head = head_of(posted_);
    if (!in_place) {
      const view some = grounds().left->my_arena->pages();
      posted_ += from.flip() ? me_.post(head, some.subspan(64, size))
                             : me_.lend(head, some.subspan(64, size));
      me_.flush();
      return;
    }
    const auto room = me_.room();
    if (room.empty())
      return;
    require(room.size() == most_parcel_bytes,
            "a reserved buffer fits any packet");
    room.front() = room.back() = std::byte{1};
    me_.post(head, size);
    ++posted_;
  }

  void take(choices& from) {
    const auto* head = me_.front();
    had_front_ = head != nullptr;
    if (!head)
      return;
    const auto before = *head;
    const auto size = me_.front_bytes();
    require(size <= most_parcel_bytes, "packets are bounded");
    write(from); // While the packet is being read.
    require(me_.front() == head && *head == before && me_.front_bytes() == size,
            "the metadata of a read packet does not change");
    const auto there = me_.view();
    require(there.size() == size, "a view covers the packet");
    if (size > 0) // A sanitizer checks that the view is within the segment.
      require(to_integer<int>(there.front() | there.back()) < 256, "readable");
    static bytes into(most_parcel_bytes);
    require(me_.fetch(std::span{into}.first(size)), "a packet can be fetched");
    me_.pop();
    had_front_ = false;
  }

  /// Changes the peer's segment: small numbers around valid ones, or arbitrary
  /// numbers.
  void write(choices& from) {
    const auto number = [&](std::uint64_t near) {
      return from.flip() ? near + from.below(2 * few_slots)
                         : from.number<std::uint64_t>();
    };
    switch (from.below(5)) {
      case 0:
        says_.posted = number(says_.posted);
        break;
      case 1:
        says_.popped = number(says_.popped);
        break;
      case 2:
        says_.parcel_wanted = from.number<std::uint8_t>();
        says_.room_wanted = from.number<std::uint8_t>();
        break;
      case 3: {
        auto& slot = peer_.slot(queue_, from.below(few_slots));
        slot.bytes = from.flip() ? from.number<std::uint32_t>()
                                 : std::uint32_t(most_parcel_bytes)
                                     - from.number<std::uint8_t>();
        slot.place = from.flip()   ? 0
                     : from.flip() ? shm_grounds::arena_bytes - number(4096)
                                   : number(4096);
        slot.head[from.below(64)] = std::byte(from.number<std::uint8_t>());
        break;
      }
      default:
        closed_ = from.below(16) == 0;
    }
  }

  static constexpr std::size_t queue_ = 1;
  bool closed_ = false, had_front_ = false;
  std::uint64_t posted_ = 0;
  std::vector<pollfd> watched_;
  shm_segment& peer_ = grounds().right->mine;
  shm_queue& says_ = peer_.header().queues[queue_];
  shm_lane me_{grounds().left, queue_, std::make_unique<beside>(closed_)};
};

void forget_what_was_written() {
  for (auto* x : {&grounds().left->mine, &grounds().right->mine}) {
    auto& queue = x->header().queues[1];
    queue.posted = queue.popped = 0;
    queue.parcel_wanted = queue.room_wanted = 0;
    for (std::uint32_t i = 0; i < few_slots; ++i)
      x->slot(1, i).bytes = 0, x->slot(1, i).place = 0;
  }
}

} // namespace

void try_one(view input) {
  forget_what_was_written();
  choices from{input};
  const auto memory = memory_of([&] {
    owner x;
    for (int turns = 0; from.any() && turns < 1000; ++turns)
      x.act(from);
    x.finish();
  });
  require(memory <= 1 << 20, "a lane takes little memory");
}

std::vector<bytes> seeds() {
  return {
    joined({9, 0, 1, 1, 2, 3, 1, 2, 0, 1, 0, 2, 4}),
    joined(
      {0, 10, 0, 1, 200, 1, 0, 10, 0, 0, 10, 0, 0, 10, 0, 9, 1, 1, 2, 0, 9, 9}),
    joined({9, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0, 2, 5, 2}),
    joined({9, 3, 0, 1, 255, 255, 255, 255, 9, 0, 1, 1, 2}),
    joined({9, 2, 3, 5, 0, 1, 1, 4, 4, 9, 4, 0, 4, 5}),
  };
}

} // namespace troupe::fuzz
