#pragma once

#include "troupe/training/strategies/replica/strategy_state.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

// Collectives between the processes of a job that are not part of training:
// texts, and calls on the chief only.

namespace troupe {

/// Runs one step in which `fn` is called for each replica of this process. `fn`
/// must own what it uses. In a job of several processes, every process must
/// call this function.
/// @param join_timeout maximum wait for the calls of the other processes. Zero:
///        the step timeout of the group.
/// @param user_step as `requesting_call::user_step`.
void run_one_step(const std::shared_ptr<strategy_state>& state,
                  const std::function<void(replica_context&)>& fn,
                  std::chrono::milliseconds join_timeout = {},
                  std::uint64_t user_step = requesting_call::no_step);

struct text_gather {
  /// Maximum wait for the calls of the other processes. Zero: the step timeout
  /// of the group.
  std::chrono::milliseconds join_timeout{0};
  /// As `job_call::name`.
  std::string call = "a gather of texts";
};

/// Returns the `own_text` of every process, by process. Every process must call
/// this function, and each call waits for the other processes as in
/// `run_one_step`. If a process is lost, the result is that of the processes
/// that are left, or of those that took part. So a text that is shown with the
/// name of its process contains this name.
std::vector<std::string>
all_gather_text(const std::shared_ptr<strategy_state>& state,
                const std::string& own_text, const text_gather& options = {});

/// As `all_gather_text`. The text may depend on the state of the job.
/// @param own_text called when this process has the state, again after each
///                 loss.
std::vector<std::string>
all_gather_text(const std::shared_ptr<strategy_state>& state,
                const std::function<std::string()>& own_text,
                const text_gather& options = {});

/// As `all_gather_text`, among the processes of the current view.
/// @errors throws `job_error` if a process is lost.
std::vector<std::string>
gather_text_once(const std::shared_ptr<strategy_state>& state,
                 const std::string& own_text,
                 std::chrono::milliseconds join_timeout = {});

/// Returns the tensor of one replica. Every process must call this function,
/// with a tensor of the same shape and dtype.
/// @errors throws `job_error` if a process is lost.
tensor gather_from(const std::shared_ptr<strategy_state>& state,
                   std::uint32_t sender, const tensor& own);

/// Calls `fn` in process 0. The other processes wait for the end of `fn`, at
/// most for the callback timeout. If `fn` throws, the call rethrows the
/// exception in process 0 and throws std::runtime_error in the other processes.
/// If process 0 is lost, the process that follows it calls `fn`.
/// @param fn must make no call of the job (job_call.hpp).
/// @param call as `job_call::name`.
void run_on_chief(const std::shared_ptr<strategy_state>& state,
                  const std::function<void()>& fn,
                  const std::string& call = "a function of the chief");

} // namespace troupe
