#include "troupe/training/strategies/state_transfer/state_follower.hpp"

#include "troupe/training/strategies/state_transfer/state_source.hpp"

#include <algorithm>
#include <cstring>
#include <variant>

namespace troupe {

using namespace std::chrono_literals;

state_follower::state_follower(std::unique_ptr<transfer_lane> lane, target into,
                               const follow_intervals& how_long)
  : lane_{std::move(lane)}, into_{std::move(into)}, intervals_{how_long} {
  lane_->receiver().open_channel(state_channel);
}

void state_follower::fail(std::string reason) {
  position_.reset();
  failed_ = true;
  reason_ = std::move(reason);
}

template <class Done, class Behind>
state_follower::result
state_follower::receive_until(std::chrono::milliseconds timeout,
                              std::chrono::milliseconds quiet, Done&& is_done,
                              Behind&& is_behind) {
  using clock = std::chrono::steady_clock;
  auto last_item = clock::now();
  auto deadline = last_item + timeout;
  auto packets = lane_->received_packets();
  const auto rest_of_quiet = [&]() -> clock::duration {
    return followed_ > 0 ? 0ms : last_item + quiet - clock::now();
  };
  const auto has_caught_up = [&] {
    return position_ && is_done() && rest_of_quiet() <= 0ms;
  };
  for (;;) {
    if (failed_)
      return result::failed;
    if (has_caught_up())
      return result::caught_up;
    if (ended_)
      return result::ended;
    if (position_ && is_behind())
      return result::behind;
    for (auto& event : lane_->progress()) {
      if (auto* x = std::get_if<tensor_transfer::arrived>(&event)) {
        if (!failed_ && !ended_)
          take(x->tensors);
        lane_->receiver().release(x->transfer);
        last_item = clock::now();
      } else if (!failed_) {
        fail("the source violates the protocol of the lane");
      }
    }
    if (failed_ || ended_ || has_caught_up())
      continue;
    if (lane_->failure()) {
      fail("the lane has ended: " + *lane_->failure());
      continue;
    }
    if (position_ && is_done()) {
      if (const auto rest = rest_of_quiet(); rest > 0ms)
        lane_->wait(rest);
      continue;
    }
    const auto now = clock::now();
    if (lane_->received_packets() != packets) {
      packets = lane_->received_packets();
      deadline = now + timeout;
    }
    if (now >= deadline)
      return result::silent;
    lane_->wait(deadline - now);
  }
}

state_follower::result
state_follower::follow(std::chrono::milliseconds timeout) {
  const auto bytes = into_.state.front().bytes();
  const auto can_wait = std::max<std::size_t>(
    state_source::max_waiting,
    state_source::waiting_bytes / std::max<std::size_t>(bytes, 1));
  const auto max_lag = std::clamp<std::size_t>(can_wait / 3, 1, 3);
  const auto age = [&] {
    return std::chrono::steady_clock::now() - values_taken_;
  };
  return receive_until(
    timeout, intervals_.quiet,
    [&] {
      return waiting_ == 0 || (waiting_ <= max_lag && age() > intervals_.min);
    },
    [&] {
      return waiting_ > max_lag && followed_ >= intervals_.min_steps * max_lag
             && age() > intervals_.max;
    });
}

state_follower::result
state_follower::follow_to(std::uint64_t steps,
                          std::chrono::milliseconds timeout) {
  return receive_until(
    timeout, 0ms, [&] { return paused_ || position_->steps >= steps; },
    [] { return false; });
}

void state_follower::take(const tensors& transfer) {
  const auto read = read_item(transfer);
  if (const auto* why = std::get_if<std::string>(&read))
    return fail(*why);
  const auto& x = std::get<state_item>(read);
  if (x.part)
    bytes_ += x.part.bytes();
  using enum state_item::kind;
  if (x.what == ended) {
    ended_ = true;
    reason_ = x.text;
    return;
  }
  if (x.what == paused && position_ && x.call == call_ && x.steps == steps_) {
    paused_ = true;
    return;
  }
  paused_ = false;
  if (x.what == values && !has_values_)
    take_values(x);
  else if ((x.what == sums || (x.what == skipped && next_first_ == 0))
           && has_values_ && x.steps == steps_ + 1 && x.call == call_)
    take_sums(x);
  else
    fail("the source has sent a part of another step than the next");
  if (failed_)
    return;
  if (!x.is_last()) {
    position_.reset();
    return;
  }
  if (has_values_)
    ++followed_;
  else
    values_taken_ = std::chrono::steady_clock::now();
  has_values_ = true;
  next_tensor_ = 0;
  next_first_ = 0;
  steps_ = x.steps;
  call_ = x.call;
  waiting_ = x.waiting;
  position_ = {x.call, x.steps};
}

void state_follower::take_values(const state_item& x) {
  if (x.tensors != into_.state.size() || x.tensor != next_tensor_
      || x.first != next_first_ || x.total != into_.state[x.tensor].size())
    return fail("the source has a state of another form");
  into_.state[x.tensor]
    .range(x.first, x.first + x.part.size())
    .copy_from(x.part);
  next_first_ = x.first + x.part.size();
  if (next_first_ == x.total) {
    next_first_ = 0;
    ++next_tensor_;
  }
}

void state_follower::take_sums(const state_item& x) {
  if (x.what == state_item::kind::skipped)
    return;
  if (x.first == 0) {
    examples_ = x.examples;
    learning_rate_ = x.learning_rate;
  }
  if (x.first != next_first_ || x.total != into_.state.front().size()
      || x.examples == 0 || x.examples != examples_
      || x.learning_rate != learning_rate_)
    return fail("the source has a gradient of another form");
  position_.reset();
  into_.update(x, x.first, x.part.data<float>());
  next_first_ = x.first + x.part.size();
}

} // namespace troupe
