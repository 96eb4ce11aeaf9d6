#include "troupe/actors/core/flight_recorder.hpp"
#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/core/log.hpp"
#include "troupe/training/loop/fit_loop.hpp"
#include "troupe/training/strategies/state_source.hpp"

#include <exception>

// How a process that joins copies the state of the model before the members
// wait for it (docs/protocols/state_transfer.md).

namespace troupe {

using namespace std::chrono_literals;

namespace {

/// Maximum time to open a lane to a member.
constexpr auto open_timeout = 2000ms;
/// Longest wait for the next packet. The first one needs a member to complete
/// a step.
constexpr auto packet_timeout = 10'000ms;
/// Longest wait for a step that the members have made already, while they wait.
constexpr auto last_step_timeout = 2000ms;
/// Members that a process tries.
constexpr std::size_t max_sources = 4;

} // namespace

bool fit_loop::copy_ahead() {
  const auto& strategy = *model_.strategy;
  const auto bytes =
    model_.model_parameters.size() * sizeof(float) * (1 + model_.rule.slots());
  if (!strategy.source || bytes < strategy.copy_ahead_bytes)
    return false;
  const auto sources = strategy.source->lanes().sources();
  for (std::size_t i = 0; i < max_sources && !sources.empty(); ++i)
    if (copy_ahead_from(sources[i % sources.size()]))
      break;
  return true;
}

bool fit_loop::copy_ahead_from(std::uint32_t task) {
  auto& lanes = model_.strategy->source->lanes();
  state_follower::target into;
  into.state.push_back(model_.model_parameters.values(0));
  for (const auto& x : model_.slots[0])
    into.state.push_back(x);
  into.update = [this](const state_item& x, std::uint64_t first,
                       std::span<const float> sums) {
    step_->follow(x.steps - 1, x.examples, static_cast<float>(x.learning_rate),
                  first, sums);
  };
  std::string why;
  try {
    follower_.emplace(lanes.open(task, open_timeout), std::move(into));
    switch (follower_->follow(packet_timeout)) {
      using enum state_follower::result;
      case caught_up:
        record_event(model_.strategy->recorder,
                     {.kind = flight_event_kind::state_copied_ahead,
                      .step = follower_->current()->steps,
                      .process = task,
                      .bytes = follower_->bytes()});
        return true;
      case silent: // the member makes no steps, so nothing disturbs it
      case ended:  // the call, or this process is too slow to follow
        follower_.reset();
        return true;
      case failed:
        why = follower_->reason();
        break;
    }
  } catch (const std::exception& e) {
    why = e.what();
  }
  follower_.reset();
  log(log_level::warning, "this process could not copy the state of "
                            + lanes.name(task) + " before it joins: " + why
                            + "; it takes another source, or copies the state "
                              "when it has joined");
  return false;
}

bool fit_loop::is_copied_ahead(const call_report& latest) {
  if (!follower_ || !follower_->current())
    return false;
  const auto& strategy = *model_.strategy;
  const auto steps = read_position(latest.text).steps;
  return follower_->follow_to(steps, last_step_timeout)
           == state_follower::result::caught_up
         && follower_->current()->call == strategy.calls + strategy.loop_calls
         && follower_->current()->steps == steps;
}

} // namespace troupe
