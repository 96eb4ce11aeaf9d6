#pragma once

#include "troupe/actors/protocol/closure_actors.hpp"

#include <caf/typed_event_based_actor.hpp>
#include <caf/typed_response_promise.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// What a remote closure worker needs to execute closures.
struct worker_setup {
  /// Registered closures by name.
  std::map<std::string,
           std::function<tensors(closure_environment&, const tensors&)>>
    closures;
  /// Spawns the worker, which executes them.
  std::function<closure_worker_actor(const closure_worker_owner_actor&)> spawn;
  std::string problem; ///< Why there is no setup. Empty: there is.
};
using shared_setup = std::shared_ptr<const worker_setup>;

/// The interface of a remote closure worker, and its own messages.
using remote_closure_worker_internal_actor = closure_worker_owner_actor::extend<
  caf::replies_to<remote_runs, tensors>::with<remote_ends, tensors>,
  caf::replies_to<coordinator::execution>::with<tensors>,
  caf::reacts_to<coordinator::cancel>,
  caf::replies_to<atom::info>::with<std::vector<std::string>>,
  // The setup is complete, or has failed.
  caf::reacts_to<shared_setup>,
  // Answers a request with the ends so far.
  caf::reacts_to<atom::next>,
  // Answers requests that have waited for an interval.
  caf::reacts_to<atom::wake>>;

/// State of a remote closure worker.
struct remote_closure_worker_state {
  static inline const char* name = "remote closure worker";

  explicit remote_closure_worker_state(
    remote_closure_worker_internal_actor::pointer self)
    : self{self} {}
  ~remote_closure_worker_state();

  using promise = caf::typed_response_promise<remote_ends, tensors>;
  using names = std::vector<std::string>;

  promise run(const remote_runs& what, const tensors& inputs);
  /// Returns the results of an execution that were kept, and forgets them.
  caf::result<tensors> take_kept(const coordinator::execution& from);
  caf::typed_response_promise<names> info();
  void answer_info();
  void cancel(const coordinator::cancel& x);
  void on_setup(const shared_setup& x);
  void on_ended(const coordinator::ended& x,
                const coordinator::payload& result);
  void on_failed(const coordinator::execution& which,
                 const closure_failure& failure);
  void on_stopped(const coordinator::execution& which);

  /// An execution that has not ended.
  struct open_run {
    coordinator::run run;
    std::string name;
    tensors inputs;
    shared_closure what; ///< Null: the setup is not complete.
  };
  void start(open_run& one);
  void fail(const coordinator::execution& which, const std::string& text);
  void reject_requests();

  /// Answers a request after the messages that have arrived.
  void answer_later();
  void answer_next();
  /// Answers the first request with the ends so far.
  void answer_first();
  void answer_after_interval();

  /// A request that is not answered, and whether it was open when an interval
  /// began.
  struct open_request {
    promise answer;
    bool has_waited = false;
  };

  remote_closure_worker_internal_actor::pointer self;
  shared_setup setup; ///< Null: not complete.
  closure_worker_actor worker;
  std::map<coordinator::execution, open_run> open;
  std::deque<open_request> requests; ///< The oldest one first.
  remote_ends ends;                  ///< That are in no answer yet.
  tensors results;                   ///< Of `ends`.
  std::size_t result_bytes = 0;      ///< Of `results`.
  std::map<coordinator::execution, tensors> kept; ///< Large results.
  bool next_pending = false; ///< An `atom::next` to itself is on its way.
  bool wake_pending = false; ///< An `atom::wake` to itself is on its way.
  std::vector<caf::typed_response_promise<names>> asked; ///< For `info`.
};

/// A worker on a node: it gives the executions that a coordinator requests to a
/// closure worker of this process, and answers with the results.
remote_closure_worker_internal_actor::behavior_type
remote_closure_worker(remote_closure_worker_internal_actor::stateful_pointer<
                      remote_closure_worker_state>
                        self);

} // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::shared_setup)
