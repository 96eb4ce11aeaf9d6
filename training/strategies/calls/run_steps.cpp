#include "troupe/training/strategies/calls/run_steps.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/tensors/context.hpp"
#include "troupe/tensors/device_backend.hpp"
#include "troupe/training/strategies/calls/job_failure.hpp"
#include "troupe/training/strategies/calls/misuse.hpp"
#include "troupe/training/strategies/replica/call_comparison.hpp"
#include "troupe/training/strategies/replica/communication_conversions.hpp"
#include "troupe/training/strategies/replica/replica_context.hpp"
#include "troupe/training/strategies/replica/strategy_state.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <stdexcept>

namespace troupe {

namespace {

/// Replica context of one step. It passes the collectives on to the step
/// context of its replica.
class group_replica_context final : public replica_context {
public:
  /// @param index of the replica in this process.
  group_replica_context(step_context& step, const strategy_state& owner,
                        std::uint32_t index, call_comparison& calls)
    : replica_context{step.replica, step.replicas, owner.bytes_per_pack,
                      owner.device_of(index)},
      step_{step},
      all_calls_{calls} {}

private:
  bool takes_device_tensors() const override {
    return step_.takes_device_tensors();
  }
  void start_sum(std::uint32_t number, const tensor& x) override {
    step_.contribute(number, x);
  }
  tensor finish_sum(std::uint32_t number) override { return step_.sum(number); }
  tensors gather(std::uint32_t number, const tensor& x) override {
    return step_.gather(number, x);
  }
  pooled<std::uint64_t> wait_at_barrier(std::uint32_t number,
                                        std::uint64_t value) override {
    return step_.barrier(number, value);
  }
  void begin_call(const call_options& x, std::size_t tensors) override {
    saved_options_ = step_.options;
    step_.options = to_collective_options(x, saved_options_.algorithm);
    step_.options.tensors =
      static_cast<std::uint8_t>(std::min<std::size_t>(tensors, 255));
  }
  void end_call() override { step_.options = saved_options_; }
  void compare_call(std::size_t index, const replica_call& made) override {
    all_calls_.on_call(step_.generation, step_.step, step_.replica, index,
                       made);
  }

  step_context& step_;
  call_comparison& all_calls_;
  collective_options saved_options_;
};

/// Returns an id for the job whose first view has these members. Zero: there
/// are none. The incarnations are random, so two jobs have different ids.
std::uint64_t job_id_of(const std::vector<std::uint64_t>& members) {
  constexpr std::uint64_t prime = 0x100000001b3; // of the hash FNV-1a
  std::uint64_t out = members.empty() ? 0 : 0xcbf29ce484222325;
  for (const auto x : members)
    out = (out ^ x) * prime;
  return out;
}

} // namespace

std::shared_ptr<strategy_state>
make_strategy_state(std::unique_ptr<replica_group> group, std::string name,
                    std::vector<device> devices, int threads) {
  auto state = std::make_shared<strategy_state>();
  state->name = std::move(name);
  state->devices = std::move(devices);
  state->replicas = group->replicas();
  state->placement = group->replica_placement();
  state->lacks_state = group->is_joining();
  if (!state->lacks_state) // others get the id with the state
    state->job_id = job_id_of(group->members());
  state->is_one_process = state->placement.job.processes() == 1
                          && group->incarnation() == 0 && !state->lacks_state;
  const bool is_copy_shared =
    state->placement.job.processes() == 1 || state->lacks_state;
  state->copies = is_copy_shared && !state->has_several_devices()
                    ? 1
                    : std::max(state->placement.count(), 1u);
  state->threads = threads;
  state->group = std::move(group);
  return state;
}

namespace {

struct running_flag_guard {
  explicit running_flag_guard(std::atomic<bool>& flag) : flag{flag} {}
  ~running_flag_guard() { flag = false; }
  std::atomic<bool>& flag;
};

/// State that a call of `run_steps` shares with the replicas. If the call ends
/// while a replica is stuck in the step function, the function and what it owns
/// are kept until that replica returns.
struct shared_run {
  shared_run(const step_function& x, std::size_t replicas)
    : calls{std::uint32_t(replicas)},
      errors(replicas),
      fn{std::make_shared<const step_function>(x)} {}

  /// Returns the step function. Null: the call of `run_steps` has ended, and no
  /// replica may enter the function.
  std::shared_ptr<const step_function> function() {
    const std::lock_guard hold{lock};
    return fn;
  }

  /// Releases the function, which is destroyed when no replica is inside it.
  /// Without this call the group would keep the function after the run.
  void release_function() {
    std::shared_ptr<const step_function> last;
    const std::lock_guard hold{lock};
    last.swap(fn);
  }

  call_comparison calls; ///< Calls of the replicas of this process.
  std::mutex lock;
  /// Exception of each replica of this process. Null: none.
  std::vector<std::exception_ptr> errors;

private:
  std::shared_ptr<const step_function> fn;
};

/// Returns the exception of a step function. Returns `device_lost` if the
/// exception follows from the loss of a device, which libraries do not say.
std::exception_ptr cause_of(const std::exception_ptr& thrown,
                            const strategy_state& state) {
  try {
    std::rethrow_exception(thrown);
  } catch (const device_error&) {
    try {
      check_devices(state.tensor_devices());
    } catch (const device_lost&) {
      return std::current_exception();
    }
  } catch (...) {
  }
  return thrown;
}

bool is_replica_inside(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const job_error& e) {
    return !e.report().inside.empty();
  } catch (...) {
    return false;
  }
}

struct release_on_exit {
  explicit release_on_exit(shared_run& run) : run{run} {}
  ~release_on_exit() { run.release_function(); }
  shared_run& run;
};

} // namespace

std::uint64_t run_steps(const std::shared_ptr<strategy_state>& state,
                        const run_request& request) {
  if (const auto* current = current_execution_scope();
      current && current->replica)
    throw_misuse("a run of a strategy",
                 "in a replica's function: a step cannot run "
                 "another one inside it");
  if (state->running.exchange(true))
    throw_misuse(
      "a run of the " + state->name + " strategy",
      "while another run of it is active; a strategy runs one at a time");
  const running_flag_guard flag{state->running};
  if (!state->in_call && !state->has_client
      && state->placement.job.processes() > 1)
    state->group->reject_candidates(
      "its program has called run, reduce or gather outside of strategy.loop, "
      "which a process that joins cannot repeat");
  const auto shared =
    std::make_shared<shared_run>(request.step, state->placement.count());
  const release_on_exit end{*shared};
  auto wrapped_request = request;
  wrapped_request.call = state->current_call;
  wrapped_request.call.user_step = request.call.user_step;
  // The pointer is weak to avoid a cycle: replicas keep the function, and the
  // strategy owns the replicas.
  wrapped_request.step = [owner = std::weak_ptr{state},
                          shared](step_context& step) {
    const auto locked_state = owner.lock();
    const auto fn = shared->function();
    if (!locked_state || !fn)
      throw superseded{};
    const auto index = locked_state->placement.job.index_of(step.replica);
    group_replica_context self{step, *locked_state, index, shared->calls};
    current_context().copy_index = index;
    const execution_scope scope{locked_state, &self};
    const execution_scope_guard scope_guard{scope};
    try {
      (*fn)(step);
    } catch (const superseded&) {
      throw;
    } catch (...) {
      const auto cause = cause_of(std::current_exception(), *locked_state);
      {
        const std::lock_guard hold{shared->lock};
        shared->errors[index] = cause;
      }
      std::rethrow_exception(cause);
    }
  };
  state->has_stuck_replica = false;
  try {
    return state->group->run(wrapped_request);
  } catch (...) {
    state->has_stuck_replica = is_replica_inside(std::current_exception());
    {
      const std::lock_guard hold{shared->lock};
      for (const auto& error : shared->errors)
        if (error) // Has the original type, unlike the error of the group.
          std::rethrow_exception(error);
    }
    if (!state->in_call)
      on_job_failure(*state, std::current_exception());
    throw;
  }
}

} // namespace troupe
