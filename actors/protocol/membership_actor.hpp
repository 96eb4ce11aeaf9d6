#pragma once

#include "troupe/net/session/connection.hpp"
#include "troupe/strategies/error_code.hpp"
#include "troupe/strategies/membership/messages.hpp"
#include "troupe/strategies/membership/view_messages.hpp"

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/typed_actor.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

/// Messages that a membership actor receives. All senders are in its process.
namespace troupe::membership_event {

/// The connection of a process that asks for a task before the start, or of a
/// participant of the first view.
struct accepted {
  std::shared_ptr<net::connection> connection;
  membership::join_request request;
};

/// The connection of a process that asks to join the running job.
struct candidate_accepted {
  std::shared_ptr<net::connection> connection;
  membership::join_request request;
};

/// The new connection of a member of the running job whose connection to this
/// process was cut.
struct accepted_again {
  std::shared_ptr<net::connection> connection;
  view_change::process_id process;
};

struct lanes_open {};

/// Why this process cannot take part in the start.
struct aborted {
  ec code = ec::stalled;
  std::string reason;
};

struct ask_to_join {};

struct request_results {
  std::uint64_t call = 0; ///< Number of the first call whose result is needed.
};

struct replicas_stopped {};

struct renewal_wanted {
  std::uint64_t view_id = 0; ///< Id of the view that is to be renewed.
};

struct no_lanes {
  std::uint64_t view_id = 0;     ///< Id of the view of the lanes.
  std::uint64_t incarnation = 0; ///< Incarnation of the member.
  bool is_newer = false; ///< The member has joined later than this process.
};

struct leaving {
  std::uint64_t view_id = 0; ///< Id of the view whose members leave.
  std::vector<std::uint64_t> incarnations;
};

struct leave {
  /// The other processes continue, also if this process is the leader.
  bool job_goes_on = false;
};

} // namespace troupe::membership_event

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::membership_event::accepted)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::membership_event::candidate_accepted)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::membership_event::accepted_again)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::membership_event::lanes_open)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::membership_event::aborted)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::membership_event::ask_to_join)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::membership_event::request_results)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::membership_event::replicas_stopped)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::membership_event::renewal_wanted)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::membership_event::no_lanes)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::membership_event::leaving)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::membership_event::leave)

namespace troupe {

/// Hosts the membership protocol (`strategies/membership/`) in a process: the
/// leader in task 0, a participant in all other tasks. A process that joins
/// while the job runs is a candidate first. Every process hosts the view
/// changes. The actor owns the control connections, one to each other process,
/// and writes what other roles need to know to a `peer_table`.
using membership_actor = caf::typed_actor<
  // A process has connected to the leader because it asks for a task, or to a
  // participant because both belong to the first view.
  caf::reacts_to<membership_event::accepted>,
  // A process has connected that asks to join the running job.
  caf::reacts_to<membership_event::candidate_accepted>,
  // A member of the running job has connected again.
  caf::reacts_to<membership_event::accepted_again>,
  // The lanes of this process to all others are open.
  caf::reacts_to<membership_event::lanes_open>,
  // This process cannot take part in the start. No effect after the start.
  caf::reacts_to<membership_event::aborted>,
  // The program of a candidate has come to the call that the job makes.
  caf::reacts_to<membership_event::ask_to_join>,
  // A process that joins asks all others for the results from a call on.
  caf::reacts_to<membership_event::request_results>,
  // The replicas of this process have stopped for a view change, as
  // `peer_table::stop` says.
  caf::reacts_to<membership_event::replicas_stopped>,
  // The replicas of this process cannot continue in a view, although no process
  // may be lost.
  caf::reacts_to<membership_event::renewal_wanted>,
  // The lanes of this process to a member of a view cannot be opened, although
  // the two are connected.
  caf::reacts_to<membership_event::no_lanes>,
  // Members of a view want to leave. Its processes have agreed on that, and
  // their replicas have stopped.
  caf::reacts_to<membership_event::leaving>,
  // This process leaves the job.
  caf::reacts_to<membership_event::leave>>;

} // namespace troupe
