#pragma once

#include <exception>
#include <memory>

namespace troupe {

class device_lost;
class flight_recorder;
struct strategy_state;

/// Makes the recorder of a job of one process.
std::shared_ptr<flight_recorder> make_local_recorder();

/// An error leaves a call of a strategy. If the job goes on without this
/// process, the launcher is told, because the exit code of the program could
/// end the job. If the job has failed, this function writes the events of the
/// process to a file, and logs the name of the file. The environment variable
/// TROUPE_FLIGHT_DIR names its directory. If the variable is not set or empty,
/// no file is written. Errors of the user's functions, and those of a process
/// that has left its job, write none.
void on_job_failure(const strategy_state& state,
                    const std::exception_ptr& error) noexcept;

/// A device of this process is lost in a call of a strategy. In a job of
/// several processes, this one leaves the job, and the others go on as after
/// the loss of a worker. The launcher is told that another process can take the
/// place of this one.
/// @errors throws `device_lost`, in a job of several processes with a text that
///         says so.
[[noreturn]] void on_lost_device(const strategy_state& state,
                                 const device_lost& error);

/// As `on_lost_device` if the exception of a callback is `device_lost`. No
/// effect for another one.
void leave_if_device_lost(const strategy_state& state,
                          const std::exception_ptr& thrown);

/// Begins each call that needs no other process, such as `model::predict`. The
/// others may have gone on without the last step of an excluded process. So the
/// values of its models may be none of the job's.
/// @errors throws `job_error` (ec::unreachable) if the job goes on without this
///         process, and passes it to `on_job_failure`. Does not throw if this
///         process has left the job by its own decision, in a known state.
void throw_if_excluded(const strategy_state& state);

} // namespace troupe
