#pragma once

#include "troupe/actors/protocol/closure_actors.hpp"

#include <caf/actor_clock.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <caf/typed_response_promise.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
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
  caf::replies_to<remote_work, tensors>::with<remote_ends, tensors>,
  caf::replies_to<atom::results, coordinator::execution>::with<tensors>,
  caf::replies_to<atom::info>::with<std::vector<std::string>>,
  // The setup is complete, or has failed.
  caf::reacts_to<shared_setup>,
  // Answers polls.
  caf::reacts_to<atom::next>,
  // Polls may have waited long enough.
  caf::reacts_to<atom::wake>>;

/// Maximum time after which a poll is answered, unless results are fetched.
inline constexpr std::chrono::milliseconds poll_timeout{1000};

/// State of a remote closure worker.
struct remote_closure_worker_state {
  static inline const char* name = "remote closure worker";

  explicit remote_closure_worker_state(
    remote_closure_worker_internal_actor::pointer self)
    : self{self} {}
  ~remote_closure_worker_state();

  using promise = caf::typed_response_promise<remote_ends, tensors>;
  using time_point = caf::actor_clock::time_point;
  using names = std::vector<std::string>;

  promise poll(const remote_work& work, const tensors& inputs);
  caf::result<tensors> fetch(const coordinator::execution& from);
  caf::typed_response_promise<names> info();
  void answer_info();
  void on_setup(const shared_setup& x);
  void on_report(const coordinator::execution& from, const tensors& what);
  void on_ended(const coordinator::ended& x,
                const coordinator::payload& result);
  void on_failed(const coordinator::execution& which,
                 const closure_failure& failure);
  void on_stopped(const coordinator::execution& which);

  /// An execution that has not ended.
  struct open_run {
    coordinator::run run;
    std::string closure_name;
    tensors inputs;
    shared_closure what; ///< Null: the setup is not complete.
  };
  /// Returns what is wrong. Empty: nothing.
  std::string begin(const std::vector<remote_run>& runs, const tensors& inputs);
  void start(open_run& one);
  void cancel(const coordinator::execution& which);
  void fail(coordinator::execution which, const std::string& text);

  /// Ends and reports that are in no answer yet, and what is beside them.
  struct batch {
    remote_ends ends;
    tensors reports, results;
    std::size_t bytes = 0; ///< Bytes of reports, results and texts.
    std::size_t count() const {
      return ends.ended.size() + ends.failed.size() + ends.stopped.size();
    }
  };
  /// Returns the batch of an end that adds `bytes`.
  batch& batch_for(std::size_t bytes);
  /// Executions that begin or have begun, and whose end is in no answer, or
  /// whose results are kept.
  std::size_t unanswered() const;
  /// Calls `answer_polls` after the messages that have arrived.
  void answer_polls_later();
  void answer_polls();
  void on_timer();
  void reject_polls();

  struct open_poll {
    promise answer;
    time_point due;
  };

  remote_closure_worker_internal_actor::pointer self;
  shared_setup setup; ///< Null: not complete.
  closure_worker_actor worker;
  std::map<coordinator::execution, open_run> open;
  std::deque<open_poll> polls; ///< The oldest one first.
  std::deque<batch> ended;     ///< Ends for the next answers.
  std::map<coordinator::execution, tensors> kept; ///< Large results.
  /// The execution whose results are being fetched. They may fill the
  /// connection, which would then reject other answers.
  std::optional<coordinator::execution> unconfirmed;
  bool next_pending = false;  ///< An `atom::next` to itself is on its way.
  bool timer_pending = false; ///< So is an `atom::wake`, after a time.
  /// Requests for `info`.
  std::vector<caf::typed_response_promise<names>> asked;
};

/// A worker on a node: it gives the executions that a coordinator requests to a
/// closure worker of this process, and answers with the results.
remote_closure_worker_internal_actor::behavior_type
remote_closure_worker(remote_closure_worker_internal_actor::stateful_pointer<
                      remote_closure_worker_state>
                        self);

} // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::shared_setup)
