#include "troupe/actors/flight/flight_recorder.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

namespace troupe {

namespace {

using word = std::atomic_ref<std::uint64_t>;

/// Bytes of text in a slot. A longer text goes on in the next slots, whose
/// events are marked as continued.
constexpr std::size_t slot_text_bytes = flight_event::max_text_bytes;
constexpr std::size_t max_whole_text_bytes = 4096;
constexpr std::size_t text_words = slot_text_bytes / 8;
/// Words of an event: its numbers and its text.
constexpr std::size_t event_words = 9 + text_words;
/// Words of a slot: the number of its event, and the event.
constexpr std::size_t slot_words = 1 + event_words;

// Word 1 of an event has its kind in bits 0 to 7, and the length of its text.
constexpr std::uint64_t continued_mark = std::uint64_t{1} << 63;

constexpr std::size_t length_in(std::uint64_t word_1) {
  return std::min<std::size_t>((word_1 & ~continued_mark) >> 8,
                               slot_text_bytes);
}

using packed_event = std::array<std::uint64_t, event_words>;

/// A text, of which at most `max_bytes` bytes are kept. Dots replace the rest.
class bounded_text {
public:
  bounded_text(std::string_view text, std::size_t max_bytes) : text_{text} {
    if (text.size() <= max_bytes) {
      kept_ = size_ = text.size();
      return;
    }
    kept_ = max_bytes - std::min(max_bytes, dots.size());
    // A character of UTF-8 is not cut in two.
    while (kept_ > 0
           && (static_cast<unsigned char>(text[kept_]) & 0xc0) == 0x80)
      --kept_;
    size_ = kept_ + dots.size();
  }

  std::size_t slots() const {
    return std::max<std::size_t>(
      (size_ + slot_text_bytes - 1) / slot_text_bytes, 1);
  }

  /// Copies the part for a slot. @returns its length.
  std::size_t copy(std::size_t slot, char* to) const {
    const auto begin = slot * slot_text_bytes;
    const auto end = std::min(begin + slot_text_bytes, size_);
    for (auto i = begin; i < end; ++i)
      to[i - begin] = i < kept_ ? text_[i] : dots[i - kept_];
    return end - begin;
  }

private:
  static constexpr std::string_view dots = "...";

  std::string_view text_;
  std::size_t kept_ = 0, size_ = 0; ///< Without and with the dots.
};

packed_event pack(const flight_event& x) {
  packed_event out{};
  out[0] = static_cast<std::uint64_t>(x.time_ns);
  out[1] = static_cast<std::uint64_t>(x.kind);
  out[2] = x.view;
  out[3] = x.generation;
  out[4] = x.run;
  out[5] = x.step;
  out[6] = x.process | std::uint64_t{x.replica} << 32;
  out[7] = x.duration_ns;
  out[8] = x.bytes;
  return out;
}

flight_event unpack(const packed_event& x) {
  flight_event out;
  out.time_ns = static_cast<std::int64_t>(x[0]);
  out.kind = static_cast<flight_event_kind>(x[1] & 0xff);
  out.view = x[2];
  out.generation = x[3];
  out.run = x[4];
  out.step = x[5];
  out.process = static_cast<std::uint32_t>(x[6]);
  out.replica = static_cast<std::uint32_t>(x[6] >> 32);
  out.duration_ns = x[7];
  out.bytes = x[8];
  out.text.assign(reinterpret_cast<const char*>(&x[9]), length_in(x[1]));
  return out;
}

std::int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
           std::chrono::steady_clock::now().time_since_epoch())
    .count();
}

std::int64_t wall_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
           std::chrono::system_clock::now().time_since_epoch())
    .count();
}

std::uint64_t* allocate_zeros(std::size_t words) {
  auto* const out =
    static_cast<std::uint64_t*>(std::calloc(words, sizeof(std::uint64_t)));
  if (!out)
    throw std::bad_alloc{};
  return out;
}

} // namespace

std::string to_string(flight_event_kind x) {
  switch (x) {
    case flight_event_kind::run_begun:
      return "run begun";
    case flight_event_kind::steps_granted:
      return "steps granted";
    case flight_event_kind::step_committed:
      return "step committed";
    case flight_event_kind::run_ended:
      return "run ended";
    case flight_event_kind::run_failed:
      return "run failed";
    case flight_event_kind::generation_begun:
      return "generation begun";
    case flight_event_kind::view_change_begun:
      return "view change begun";
    case flight_event_kind::replicas_stopped:
      return "replicas stopped";
    case flight_event_kind::view_agreed:
      return "view agreed";
    case flight_event_kind::lanes_opened:
      return "lanes opened";
    case flight_event_kind::positions_gathered:
      return "positions gathered";
    case flight_event_kind::state_copied:
      return "state copied";
    case flight_event_kind::view_entered:
      return "view entered";
    case flight_event_kind::no_majority:
      return "no majority";
    case flight_event_kind::excluded:
      return "excluded";
    case flight_event_kind::suspicion:
      return "suspicion";
    case flight_event_kind::connected:
      return "connected";
    case flight_event_kind::disconnected:
      return "disconnected";
    case flight_event_kind::process_dead:
      return "process dead";
    case flight_event_kind::process_unreachable:
      return "process unreachable";
    case flight_event_kind::process_lost:
      return "process lost";
    case flight_event_kind::process_left:
      return "process left";
    case flight_event_kind::process_joined:
      return "process joined";
    case flight_event_kind::process_restarted:
      return "process restarted";
    case flight_event_kind::checkpoint_saved:
      return "checkpoint saved";
    case flight_event_kind::role_missing:
      return "role missing";
    case flight_event_kind::job_failed:
      return "job failed";
    case flight_event_kind::state_copied_ahead:
      return "state copied ahead";
  }
  return "event " + std::to_string(static_cast<unsigned>(x));
}

flight_recorder::flight_recorder(std::size_t capacity, time_source now)
  : capacity_{std::max<std::size_t>(capacity, 1)},
    now_{now ? std::move(now) : time_source{steady_ns}},
    first_ns_{now_()},
    words_{allocate_zeros(capacity_ * slot_words + 1)} {
  identity_.wall_ns = wall_ns();
}

flight_recorder::~flight_recorder() {
  std::free(words_);
}

std::int64_t flight_recorder::now_ns() const {
  return now_() - first_ns_;
}

// The number of a slot that was never written is 0. It is 2 * n + 1 while event
// n is written, and 2 * n + 2 afterwards. A writer stores each word with
// release order after the odd number. So a reader that loads a word of a newer
// event with acquire order then sees the newer number too, and drops its copy.
void flight_recorder::record(const flight_event& event) noexcept {
  const bounded_text text{
    event.text, std::min(max_whole_text_bytes, capacity_ * slot_text_bytes)};
  const auto slots = text.slots();
  const auto first = word{next_}.fetch_add(slots, std::memory_order_relaxed);
  word{words_[capacity_ * slot_words]}.fetch_add(1, std::memory_order_relaxed);
  auto packed = pack(event);
  for (std::size_t k = 0; k < slots; ++k) {
    const auto number = first + k;
    auto* const slot = words_ + number % capacity_ * slot_words;
    word state{slot[0]};
    auto before = state.load(std::memory_order_relaxed);
    const auto writing = 2 * number + 1;
    if (before % 2 == 1 || before > writing
        || !state.compare_exchange_strong(before, writing,
                                          std::memory_order_acquire))
      return; // this writer was slower than all others together
    if (k == 0) {
      packed[0] = static_cast<std::uint64_t>(now_ns());
      word view{view_};
      if (event.view != 0)
        view.store(event.view, std::memory_order_relaxed);
      else
        packed[2] = view.load(std::memory_order_relaxed);
    }
    const auto length = text.copy(k, reinterpret_cast<char*>(&packed[9]));
    packed[1] = static_cast<std::uint64_t>(event.kind)
                | std::uint64_t{length} << 8 | (k > 0 ? continued_mark : 0);
    const auto words = 9 + (length + 7) / 8;
    for (std::size_t i = 0; i < words; ++i)
      word{slot[1 + i]}.store(packed[i], std::memory_order_release);
    state.store(writing + 1, std::memory_order_release);
  }
}

std::vector<flight_event> flight_recorder::events() const {
  auto& next = const_cast<std::uint64_t&>(next_);
  const auto end = word{next}.load(std::memory_order_acquire);
  std::vector<flight_event> out;
  out.reserve(std::min<std::uint64_t>(end, capacity_));
  std::uint64_t continuation = 0; // number of the slot that continues the last
  for (auto n = end - std::min<std::uint64_t>(end, capacity_); n < end; ++n) {
    auto* const slot = words_ + n % capacity_ * slot_words;
    word state{slot[0]};
    if (state.load(std::memory_order_acquire) != 2 * n + 2)
      continue;
    packed_event copy{};
    for (std::size_t i = 0; i < 9; ++i)
      copy[i] = word{slot[1 + i]}.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < (length_in(copy[1]) + 7) / 8; ++i)
      copy[9 + i] = word{slot[10 + i]}.load(std::memory_order_acquire);
    if (state.load(std::memory_order_relaxed) != 2 * n + 2)
      continue;
    auto event = unpack(copy);
    if (!(copy[1] & continued_mark))
      out.push_back(std::move(event));
    else if (n == continuation)
      out.back().text += event.text;
    else
      continue; // the event was overwritten or dropped
    continuation = n + 1;
  }
  return out;
}

std::uint64_t flight_recorder::recorded() const {
  return word{words_[capacity_ * slot_words]}.load(std::memory_order_relaxed);
}

void flight_recorder::set_identity(const flight_identity& identity) {
  const std::lock_guard hold{lock_};
  const auto wall = identity_.wall_ns;
  identity_ = identity;
  identity_.wall_ns = wall;
}

flight_identity flight_recorder::identity() const {
  const std::lock_guard hold{lock_};
  return identity_;
}

std::uint32_t flight_recorder::task_of(const std::string& name) const {
  const std::lock_guard hold{lock_};
  const auto it = std::ranges::find(identity_.names, name);
  return it == identity_.names.end()
           ? flight_event::none
           : static_cast<std::uint32_t>(it - identity_.names.begin());
}

} // namespace troupe
