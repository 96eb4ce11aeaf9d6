#pragma once

#include "troupe/training/remote/request_inputs.hpp"
#include "troupe/training/remote/worker.hpp"

#include <caf/typed_event_based_actor.hpp>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>

namespace troupe {

class multi_worker_mirrored_strategy;
class runtime;
class service_router;
class step_snapshot;
struct failure_report;

/// Ends the runs of a worker whose client is lost. Thread-safe.
class run_ender {
public:
  using function = std::function<void(const failure_report&)>;

  /// Sets what ends the runs. If `end` was called before, it is called now.
  void set(function end_runs);
  /// Ends the active run and all later ones.
  void end();

private:
  std::mutex lock_;
  function end_runs_;
  bool has_ended_ = false;
};

/// What a worker and its `request_runner` share.
struct worker_channel {
  request_inputs inputs;
  run_ender runs;
};

/// The part of a worker that joins the job and carries out requests. It blocks,
/// so it is detached. Its mailbox is the queue of the requests. Messages as of
/// `worker_actor`; the inputs of a request are in the `worker_channel`.
using request_runner_actor = caf::typed_actor<
  caf::replies_to<atom::info>::with<worker_status>,
  caf::replies_to<atom::run, std::string, std::uint64_t>::with<worker_status,
                                                               tensors>,
  caf::replies_to<atom::results, std::uint64_t,
                  std::vector<std::uint32_t>>::with<worker_status, tensors>,
  caf::replies_to<atom::admit, std::uint64_t,
                  std::uint64_t>::with<worker_status>,
  caf::replies_to<atom::stop>::with<bool>,
  // The processes of the job may wait until this one enters the next view.
  caf::reacts_to<atom::wake>>;

/// How a `request_runner` is spawned.
struct request_runner_options {
  runtime* local_runtime = nullptr; ///< Outlives the actor.
  std::weak_ptr<service_router> router;
  worker_arguments arguments;
  steps_factory factory;
  std::shared_ptr<worker_channel> channel;
};

struct request_runner_state {
  static inline const char* name = "request_runner";

  explicit request_runner_state(request_runner_actor::pointer self)
    : self{self} {}
  request_runner_state(const request_runner_state&) = delete;
  request_runner_state& operator=(const request_runner_state&) = delete;
  /// Leaves the job at once, unless `stop` was called.
  ~request_runner_state();

  worker_status info();
  caf::result<worker_status, tensors> run(const std::string& function,
                                          std::uint64_t number);
  caf::result<worker_status, tensors>
  results(std::uint64_t number, const std::vector<std::uint32_t>& replicas);
  worker_status admit(std::uint64_t number, std::uint64_t incarnation);
  bool stop();
  /// Enters the next view of the job if the others wait for that.
  void enter_pending_view();
  void throw_if_out_of_job();

  request_runner_actor::pointer self;
  request_runner_options options;

private:
  struct kept_results;

  template <class F>
  worker_status guarded(F&& fn);
  void join();
  void make_functions();
  std::string description() const;
  std::string initial_values() const;
  tensors run_for_replicas(const step_functions::for_replica& fn,
                           std::uint64_t number, worker_status& status);
  void check_number(std::uint64_t number);
  void release();

  std::shared_ptr<const multi_worker_mirrored_strategy> strategy_;
  /// The functions may refer to `strategy_`, so they are destroyed before it.
  step_functions functions_;
  std::shared_ptr<step_snapshot> snapshot_; ///< Null: there is none.
  std::uint64_t next_request_ = 0;
  /// Results of the last `run`. Null: there are none.
  std::shared_ptr<const kept_results> last_;
};

/// Behavior of the part of a worker that carries out requests.
request_runner_actor::behavior_type request_runner(
  request_runner_actor::stateful_pointer<request_runner_state> self,
  const request_runner_options& options);

} // namespace troupe
