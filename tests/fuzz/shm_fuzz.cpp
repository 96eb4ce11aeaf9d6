// Fuzzes net/shm/shm_lane with a segment that the peer changes at any time.
#include "troupe/tests/fuzz/fuzz.hpp"
#include "troupe/tests/net/lanes/lanes.hpp"

using namespace troupe::net;
using namespace troupe::net::testing;

namespace troupe::fuzz {

namespace {

/// The liveness stream of the lane, whose end tells the lane that the peer has
/// ended. It carries no data, and ends when `closed` is set.
class control_stream final : public stream {
public:
  explicit control_stream(const bool& closed) : closed_{closed} {}
  io_result read_some(std::span<std::byte>) override {
    return {0, closed_ ? status::closed : status::wants_read};
  }
  io_result write_some(view, view) override { return {0, status::wants_write}; }
  bool has_buffered() const override { return false; }
  int descriptor() const override { return -1; }
  std::string problem() const override { return ""; }
  void close() override {}

private:
  const bool& closed_;
};

shm_contexts& fixture() {
  static shm_contexts all{few_slots, true};
  return all;
}

/// Calls the functions of a lane, and changes the peer's segment.
class owner {
public:
  void act(choices& source) {
    switch (source.below(10)) {
      case 0:
        return post(source, false);
      case 1:
        return post(source, true);
      case 2:
      case 3:
        return take(source);
      case 4:
        watched_.clear();
        lane_.arm(watched_);
        require(watched_.size() <= 2, "a lane watches two descriptors");
        return lane_.disarm();
      case 5:
        lane_.closed();
        return;
      default:
        write(source);
    }
  }

  void finish() {
    if (const auto& end = lane_.closed();
        end && end->cause == close_reason::protocol_error)
      require(!lane_.front() || had_front_,
              "no packet arrives over a broken lane");
  }

private:
  void post(choices& source, bool in_place) {
    const auto size = source.number<std::uint16_t>();
    const auto head = numbered_header(posted_);
    if (!in_place) {
      const view some = fixture().left->own_arena->pages();
      posted_ += source.flip()
                   ? lane_.post(head, some.subspan(64, size))
                   : lane_.post_zero_copy(head, some.subspan(64, size));
      lane_.flush();
      return;
    }
    const auto room = lane_.reserve();
    if (room.empty())
      return;
    require(room.size() == max_packet_bytes,
            "a reserved buffer fits any packet");
    room.front() = room.back() = std::byte{1};
    lane_.post(head, size);
    ++posted_;
  }

  void take(choices& source) {
    const auto* head = lane_.front();
    had_front_ = head != nullptr;
    if (!head)
      return;
    const auto before = *head;
    const auto size = lane_.front_bytes();
    require(size <= max_packet_bytes, "packets are bounded");
    // the peer changes its segment while the packet is being read
    write(source);
    require(lane_.front() == head && *head == before
              && lane_.front_bytes() == size,
            "the metadata of a read packet does not change");
    const auto there = lane_.view();
    require(there.size() == size, "a view covers the packet");
    if (size > 0) // a sanitizer detects a view beyond the mapped memory
      require(to_integer<int>(there.front() | there.back()) < 256, "readable");
    static bytes into(max_packet_bytes);
    require(lane_.fetch(std::span{into}.first(size)),
            "a packet can be fetched");
    lane_.pop();
    had_front_ = false;
  }

  /// Overwrites some numbers in the peer's segment, as a hostile peer could, or
  /// sets whether the liveness stream (`control_stream`) has ended. A new
  /// number is arbitrary, or close to the old number or to a limit, so it can
  /// be valid or invalid.
  void write(choices& source) {
    const auto number = [&](std::uint64_t near) {
      return source.flip() ? near + source.below(2 * few_slots)
                           : source.number<std::uint64_t>();
    };
    switch (source.below(5)) {
      case 0:
        peer_queue_.posted = number(peer_queue_.posted);
        break;
      case 1:
        peer_queue_.popped = number(peer_queue_.popped);
        break;
      case 2:
        peer_queue_.packet_wanted = source.number<std::uint8_t>();
        peer_queue_.space_wanted = source.number<std::uint8_t>();
        break;
      case 3: {
        auto& slot = peer_.slot(queue_, source.below(few_slots));
        slot.bytes = source.flip() ? source.number<std::uint32_t>()
                                   : std::uint32_t(max_packet_bytes)
                                       - source.number<std::uint8_t>();
        slot.offset = source.flip()   ? 0
                      : source.flip() ? shm_contexts::arena_bytes - number(4096)
                                      : number(4096);
        slot.header[source.below(64)] =
          std::byte(source.number<std::uint8_t>());
        break;
      }
      default:
        closed_ = source.below(16) == 0;
    }
  }

  static constexpr std::size_t queue_ = 1;
  bool closed_ = false, had_front_ = false;
  std::uint64_t posted_ = 0;
  std::vector<pollfd> watched_;
  shm_segment& peer_ = fixture().right->own_segment;
  shm_queue& peer_queue_ = peer_.header().queues[queue_];
  shm_lane lane_{fixture().left, queue_,
                 std::make_unique<control_stream>(closed_)};
};

void forget_what_was_written() {
  for (auto* x :
       {&fixture().left->own_segment, &fixture().right->own_segment}) {
    auto& queue = x->header().queues[1];
    queue.posted = queue.popped = 0;
    queue.packet_wanted = queue.space_wanted = 0;
    for (std::uint32_t i = 0; i < few_slots; ++i)
      x->slot(1, i).bytes = 0, x->slot(1, i).offset = 0;
  }
}

} // namespace

void try_one(view input) {
  forget_what_was_written();
  choices source{input};
  const auto memory = memory_of([&] {
    owner x;
    for (int turns = 0; source.any() && turns < 1000; ++turns)
      x.act(source);
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
