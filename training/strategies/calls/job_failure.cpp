#include "troupe/training/strategies/calls/job_failure.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/core/log.hpp"
#include "troupe/actors/flight/flight_record.hpp"
#include "troupe/net/cluster/device_loss_report.hpp"
#include "troupe/tensors/base/device_error.hpp"
#include "troupe/training/strategies/replica/strategy_state.hpp"
#include "troupe/training/support/flight_file.hpp"

#include <cstdlib>
#include <random>

namespace troupe {

namespace {

bool is_failure_of_job(ec code) {
  return code == ec::protocol || code == ec::peer_lost
         || code == ec::unreachable || code == ec::stalled
         || code == ec::corrupt;
}

void write_events(const strategy_state& state, const job_error& error) {
  if (!is_failure_of_job(error.code) || !state.recorder)
    return;
  state.recorder->record({.kind = flight_event_kind::job_failed,
                          .run = error.report().run,
                          .step = error.report().step,
                          .text = error.what()});
  const auto* const directory = std::getenv("TROUPE_FLIGHT_DIR");
  if (!directory || !*directory)
    return;
  const auto record = take_record(*state.recorder, error.what());
  const auto path = write_flight_file(directory, record);
  log(log_level::warning,
      "a call of the job has failed; the last events are in " + path.string()
        + ", which `troupe explain` shows");
}

} // namespace

std::shared_ptr<flight_recorder> make_local_recorder() {
  auto out = std::make_shared<flight_recorder>();
  std::random_device dice;
  flight_identity identity;
  identity.incarnation = std::uint64_t{dice()} << 32 | dice();
  out->set_identity(identity);
  return out;
}

void on_job_failure(const strategy_state& state,
                    const std::exception_ptr& error) noexcept {
  try {
    // `has_left`: it has given up, because it reaches too few others.
    if (state.launcher
        && (state.group->is_excluded() || state.group->has_left()))
      state.launcher->report_left();
    std::rethrow_exception(error);
  } catch (const job_error& e) {
    try {
      write_events(state, e);
    } catch (const std::exception& problem) {
      log(log_level::warning,
          std::string{"the events of the failed job could not be written: "}
            + problem.what());
    }
  } catch (...) { // an error of the user's function
  }
}

void on_lost_device(const strategy_state& state, const device_lost& error) {
  if (state.placement.job.processes() == 1 || state.group->is_excluded())
    throw device_lost{error};
  state.group->leave_at_once();
  if (state.launcher)
    net::report_lost_device();
  throw device_lost{
    std::string{error.what()}
    + "; so this process has left its job, and the others go on"};
}

void leave_if_device_lost(const strategy_state& state,
                          const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const device_lost& e) {
    on_lost_device(state, e);
  } catch (...) {
  }
}

void throw_if_excluded(const strategy_state& state) {
  if (!state.group->is_excluded() || state.group->has_left())
    return;
  const job_error error{
    ec::unreachable,
    "the job goes on without this process, so the values of its models may be "
    "none of the job's; load a file that the job saves"};
  on_job_failure(state, std::make_exception_ptr(error));
  throw error;
}

} // namespace troupe
