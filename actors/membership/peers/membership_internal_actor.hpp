#pragma once

#include "troupe/actors/protocol/atoms.hpp"
#include "troupe/actors/protocol/membership_actor.hpp"
#include "troupe/net/io/process_handle.hpp"
#include "troupe/net/session/endpoint.hpp"

#include <caf/timespan.hpp>
#include <caf/typed_event_based_actor.hpp>

// Messages that a membership actor sends to itself, and that its connections
// and dials send to it.

namespace troupe::membership_event {

/// A message on the channel of membership, of view changes, of results or of
/// packet reports.
struct received {
  std::uint32_t task = 0;       ///< Task of the sender.
  std::uint64_t connection = 0; ///< The actor counts its connections.
  std::uint32_t channel = 0;    ///< Number of the channel.
  std::shared_ptr<net::frame> frame;
};

struct closed {
  std::uint32_t task = 0;       ///< Task of the other process.
  std::uint64_t connection = 0; ///< As in `received`.
  net::close_reason cause = net::close_reason::closed;
  std::string reason;
};

struct dialed {
  std::uint32_t task = 0;
  std::shared_ptr<net::endpoint::dial_result> result;
};

struct candidate_dialed {
  view_change::process_id process;
  std::shared_ptr<net::endpoint::dial_result> result;
};

struct dialed_again {
  view_change::process_id process;
  std::shared_ptr<net::endpoint::dial_result> result;
};

/// How the connection to another participant has ended.
struct peer_lost {
  std::uint32_t task = 0;
  ec code = ec::peer_lost;
  std::string reason;
};

/// A process of this host to which the connection has ended.
struct end_check {
  std::uint64_t incarnation = 0;
  std::shared_ptr<const net::process_handle> process;
  std::uint32_t further_checks = 0;
  std::uint32_t task = 0; ///< Task of the process.
};

struct dial_again {
  view_change::process_id process;
};

struct not_reconnected {
  view_change::process_id process;
  std::uint64_t number = 0; ///< Number in `reconnection::set_timer`.
};

struct stop_overdue {
  std::uint64_t view_id = 0; ///< Id of the view before the change.
};

struct undecided {
  std::uint64_t view_id = 0; ///< Id of the view before the change.
  std::vector<std::uint32_t> silent_tasks;
};

/// A question to the launcher.
struct survivors_asked {
  std::uint64_t view_id = 0;  ///< Id of the view in which it was asked.
  std::uint64_t question = 0; ///< Number of the question.
  caf::timespan deadline{};   ///< Time at which this process gives up.
  std::vector<view_change::process_id> living;
  std::vector<std::uint32_t> silent_tasks; ///< As in `undecided`.
};

struct packet_reports_due {};

struct connections_overdue {};

} // namespace troupe::membership_event

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::membership_event::received)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::membership_event::closed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::membership_event::dialed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::membership_event::candidate_dialed)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::membership_event::dialed_again)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::membership_event::peer_lost)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::membership_event::end_check)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::membership_event::dial_again)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::membership_event::not_reconnected)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::membership_event::stop_overdue)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::membership_event::undecided)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::membership_event::survivors_asked)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::membership_event::packet_reports_due)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::membership_event::connections_overdue)

namespace troupe {

/// The interface of a membership actor, and its own messages.
using membership_internal_actor = membership_actor::extend<
  // A connected process has sent a message.
  caf::reacts_to<membership_event::received>,
  // The connection to a process has ended.
  caf::reacts_to<membership_event::closed>,
  // Participant or candidate: an attempt to connect to the process of a task
  // has ended.
  caf::reacts_to<membership_event::dialed>,
  // An attempt to connect to a process that asks to join has ended.
  caf::reacts_to<membership_event::candidate_dialed>,
  // An attempt to make a connection again has ended.
  caf::reacts_to<membership_event::dialed_again>,
  // Participant: some time ago the connection to another one ended, before the
  // start.
  caf::reacts_to<membership_event::peer_lost>,
  // Check whether a process has ended to which the connection has ended.
  caf::reacts_to<membership_event::end_check>,
  // Dial a member of the running job to which the connection was cut.
  caf::reacts_to<membership_event::dial_again>,
  // The time in which a connection must be made again has passed.
  caf::reacts_to<membership_event::not_reconnected>,
  // The replicas of this process should have stopped by now for a view change.
  caf::reacts_to<membership_event::stop_overdue>,
  // Too few processes have answered for a view change. Since then the others
  // were reported to the launcher.
  caf::reacts_to<membership_event::undecided>,
  // The launcher was asked which processes live, and may have answered.
  caf::reacts_to<membership_event::survivors_asked>,
  // Report to the other processes how many packets they were sent.
  caf::reacts_to<membership_event::packet_reports_due>,
  // Candidate: its last connection to a process of the job has ended some time
  // ago.
  caf::reacts_to<membership_event::connections_overdue>,
  // The timeout with this number has elapsed. An older number has no effect.
  caf::reacts_to<atom::watchdog, std::uint64_t>,
  // The timer of the view changes with this number has elapsed.
  caf::reacts_to<atom::wake, std::uint64_t>,
  // A participant or candidate dials the process of this task again.
  caf::reacts_to<atom::next, std::uint32_t>,
  // A candidate asks again.
  caf::reacts_to<atom::next>,
  // The leader logs which tasks are missing, and a candidate why it is not
  // accepted.
  caf::reacts_to<atom::missing>>;

} // namespace troupe
