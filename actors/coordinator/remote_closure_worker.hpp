#pragma once

#include "troupe/actors/protocol/closure_actors.hpp"

#include <caf/typed_event_based_actor.hpp>
#include <caf/typed_response_promise.hpp>

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
  caf::replies_to<coordinator::run, std::string,
                  tensors>::with<coordinator::ended, tensors>,
  caf::reacts_to<coordinator::cancel>,
  caf::replies_to<atom::info>::with<std::vector<std::string>>,
  // The setup is complete, or has failed.
  caf::reacts_to<shared_setup>>;

/// State of a remote closure worker.
struct remote_closure_worker_state {
  static inline const char* name = "remote closure worker";

  explicit remote_closure_worker_state(
    remote_closure_worker_internal_actor::pointer self)
    : self{self} {}
  ~remote_closure_worker_state();

  using promise = caf::typed_response_promise<coordinator::ended, tensors>;

  promise run(const coordinator::run& what, const std::string& closure_name,
              const tensors& inputs);
  using names = std::vector<std::string>;
  caf::typed_response_promise<names> info();
  void answer_info();
  void cancel(const coordinator::cancel& x);
  void on_setup(const shared_setup& x);
  void on_ended(const coordinator::ended& x,
                const coordinator::payload& result);
  void on_failed(const coordinator::execution& which,
                 const closure_failure& failure);
  void on_stopped(const coordinator::execution& which);

  /// An execution that is not answered.
  struct open_run {
    promise answer;
    coordinator::run run;
    std::string name;
    tensors inputs;
    shared_closure what; ///< Null: the setup is not complete.
  };
  void start(open_run& one);
  void fail(open_run& one, ec code, const std::string& text);

  remote_closure_worker_internal_actor::pointer self;
  shared_setup setup; ///< Null: not complete.
  closure_worker_actor worker;
  std::map<coordinator::execution, open_run> open;
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
