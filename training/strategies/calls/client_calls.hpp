#pragma once

#include "troupe/training/strategies/replica/strategy_state.hpp"

#include <cstdint>
#include <memory>

// Calls of a job whose processes make no calls by themselves: a client tells
// all of them which call is next (training/remote/).

namespace troupe {

/// From now on a client decides which calls the processes of the job make. The
/// calls are counted, but not logged, as those in a `training_loop`. A process
/// that joins waits until `admit_process`. All processes call this function at
/// the same position.
void begin_client_calls(const std::shared_ptr<strategy_state>& state);

/// A call of the job in which a process joins. All members make it, and the
/// process that joins makes it too. Members wait until that process is a
/// member, and copy the state to it:
///
///   who      the members of the view, and the process that joins
///   round    each member waits until the process asks to join, and then
///   gathers
///            whether it has asked and whether the member has waited too long
///   on ask   of one member: all admit the process, in a view change
///   end      the process is a member of the view, or a member has waited for
///            10 s
///   faults   another member is lost -> the next view is without it, and has
///   the
///            process that joins as soon as it has asked
///            the process that joins is lost -> the members wait as above
/// @param incarnation of the process that joins, by `replica_group`.
/// @returns false if the process was not admitted. It is equal in all members.
/// @errors throws as `make_call`.
bool admit_process(const std::shared_ptr<strategy_state>& state,
                   std::uint64_t incarnation);

} // namespace troupe
