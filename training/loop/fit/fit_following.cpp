#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/core/log.hpp"
#include "troupe/actors/flight/flight_recorder.hpp"
#include "troupe/training/loop/fit/fit_loop.hpp"
#include "troupe/training/strategies/state_transfer/state_source.hpp"

#include <algorithm>
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
constexpr auto packet_timeout = 30'000ms;
/// Longest wait for a step that the members have made already, while they wait.
constexpr auto last_step_timeout = 2000ms;
/// Members that a process tries.
constexpr std::size_t max_sources = 4;

} // namespace

bool fit_loop::copy_ahead() {
  const auto sources = model_.strategy->source->lanes().sources();
  for (std::size_t i = 0; i < std::min(max_sources, sources.size()); ++i)
    switch (copy_ahead_from(sources[i])) {
      case copy_result::copied:
        return false;
      case copy_result::no_steps:
        return true;
      case copy_result::failed:
        break;
    }
  return true;
}

fit_loop::copy_result fit_loop::copy_ahead_from(std::uint32_t task) {
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
    const auto found = follower_->follow(packet_timeout);
    if (found == state_follower::result::caught_up) {
      record_event(model_.strategy->recorder,
                   {.kind = flight_event_kind::state_copied_ahead,
                    .step = follower_->current()->steps,
                    .process = task,
                    .bytes = follower_->bytes()});
      return copy_result::copied;
    }
    const bool is_silent = found == state_follower::result::silent;
    const bool is_behind = found == state_follower::result::behind;
    why = is_silent ? "it sent nothing for "
                        + std::to_string(packet_timeout.count()) + " ms"
          : is_behind ? "this process does not catch up with the steps"
                      : follower_->reason();
    // A member that has not begun makes no steps, so nothing disturbs it.
    if (is_behind || found == state_follower::result::ended
        || (is_silent && follower_->bytes() == 0)) {
      follower_.reset();
      log(log_level::info, "this process has not copied the state of "
                             + lanes.name(task) + " before it joins: " + why);
      return copy_result::no_steps;
    }
  } catch (const std::exception& e) {
    why = e.what();
  }
  follower_.reset();
  log(log_level::warning, "this process could not copy the state of "
                            + lanes.name(task) + " before it joins: " + why
                            + "; it takes another source, or copies the state "
                              "when it has joined");
  return copy_result::failed;
}

bool fit_loop::is_copied_ahead(const call_report& latest) {
  if (!follower_ || !follower_->current())
    return false;
  const auto steps = read_position(latest.text).steps;
  try {
    if (follower_->follow_to(steps, last_step_timeout)
        != state_follower::result::caught_up)
      return false;
  } catch (const std::exception& e) {
    log(log_level::warning,
        std::string{"this process could not follow the steps of a member: "}
          + e.what());
    return false;
  }
  return follower_->current()->call == model_.strategy->all_calls()
         && follower_->current()->steps == steps;
}

} // namespace troupe
