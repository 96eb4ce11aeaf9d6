#include "troupe/actors/core/flight_recorder.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>

namespace troupe {

namespace {

using word = std::atomic_ref<std::uint64_t>;

constexpr std::size_t text_words = flight_event::max_text_bytes / 8;
/// Words of an event: its numbers and its text.
constexpr std::size_t event_words = 9 + text_words;
/// Words of a slot: the number of its event, and the event.
constexpr std::size_t slot_words = 1 + event_words;

using packed_event = std::array<std::uint64_t, event_words>;

packed_event pack(const flight_event& x) {
  packed_event out{};
  auto length = std::min(x.text.size(), flight_event::max_text_bytes);
  // A character of UTF-8 is not cut in two.
  while (length < x.text.size() && length > 0
         && (static_cast<unsigned char>(x.text[length]) & 0xc0) == 0x80)
    --length;
  out[0] = static_cast<std::uint64_t>(x.time_ns);
  out[1] = static_cast<std::uint64_t>(x.kind) | std::uint64_t{length} << 8;
  out[2] = x.view;
  out[3] = x.generation;
  out[4] = x.run;
  out[5] = x.step;
  out[6] = x.process | std::uint64_t{x.replica} << 32;
  out[7] = x.duration_ns;
  out[8] = x.bytes;
  std::memcpy(&out[9], x.text.data(), length);
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
  out.text.assign(reinterpret_cast<const char*>(&x[9]), x[1] >> 8);
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
    words_{allocate_zeros(capacity_ * slot_words)} {
  identity_.wall_ns = wall_ns();
}

flight_recorder::~flight_recorder() {
  std::free(words_);
}

std::int64_t flight_recorder::now_ns() const {
  return now_() - first_ns_;
}

// The number of a slot is 0 if it was never written, 2 * n + 1 while event n is
// written, and 2 * n + 2 afterwards. A writer stores each word with release
// order after the odd number. So a reader that loads a word of a newer event
// with acquire order then sees the newer number too, and drops its copy.
void flight_recorder::record(const flight_event& event) noexcept {
  const auto number = word{next_}.fetch_add(1, std::memory_order_relaxed);
  auto* const slot = words_ + number % capacity_ * slot_words;
  word state{slot[0]};
  auto before = state.load(std::memory_order_relaxed);
  const auto writing = 2 * number + 1;
  if (before % 2 == 1 || before > writing
      || !state.compare_exchange_strong(before, writing,
                                        std::memory_order_acquire))
    return; // this writer was slower than all others together
  auto packed = pack(event);
  packed[0] = static_cast<std::uint64_t>(now_ns());
  word view{view_};
  if (event.view != 0)
    view.store(event.view, std::memory_order_relaxed);
  else
    packed[2] = view.load(std::memory_order_relaxed);
  const auto words = 9 + (std::size_t(packed[1] >> 8) + 7) / 8;
  for (std::size_t i = 0; i < words; ++i)
    word{slot[1 + i]}.store(packed[i], std::memory_order_release);
  state.store(writing + 1, std::memory_order_release);
}

std::vector<flight_event> flight_recorder::events() const {
  auto& next = const_cast<std::uint64_t&>(next_);
  const auto end = word{next}.load(std::memory_order_acquire);
  std::vector<flight_event> out;
  out.reserve(std::min<std::uint64_t>(end, capacity_));
  for (auto n = end - std::min<std::uint64_t>(end, capacity_); n < end; ++n) {
    auto* const slot = words_ + n % capacity_ * slot_words;
    word state{slot[0]};
    if (state.load(std::memory_order_acquire) != 2 * n + 2)
      continue;
    packed_event copy{};
    for (std::size_t i = 0; i < 9; ++i)
      copy[i] = word{slot[1 + i]}.load(std::memory_order_acquire);
    const auto length =
      std::min<std::uint64_t>(copy[1] >> 8, flight_event::max_text_bytes);
    for (std::size_t i = 0; i < (length + 7) / 8; ++i)
      copy[9 + i] = word{slot[10 + i]}.load(std::memory_order_acquire);
    if (state.load(std::memory_order_relaxed) == 2 * n + 2)
      out.push_back(unpack(copy));
  }
  return out;
}

std::uint64_t flight_recorder::recorded() const {
  return word{const_cast<std::uint64_t&>(next_)}.load(
    std::memory_order_relaxed);
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
