#pragma once

#include "troupe/actors/group/replica_group.hpp"
#include "troupe/actors/membership/peers/peer_table.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// What an elastic group needs from its process.
struct elastic_group_options {
  std::shared_ptr<peer_table> peers;
  /// Opens lanes to the other processes of a view, and makes the group of the
  /// replicas that the view places on this process.
  /// @errors throws `job_error`, for example if another process is lost, and
  ///         `lane_failure` if lanes could not be opened. A `std::logic_error`
  ///         is a bug, and another exception says what this process lacks.
  std::function<std::unique_ptr<replica_group>(const membership::view&)>
    make_group;
  /// Tells the membership actor that the replicas have stopped.
  std::function<void()> on_stopped;
  /// Tells the membership actor that this process asks to join its job.
  std::function<void()> on_ask;
  /// Tells the membership actor to ask the other processes for the results of
  /// the job from this call on.
  std::function<void(std::uint64_t call)> request_results;
  /// Tells the membership actor which members of the view with this id want to
  /// leave.
  std::function<void(std::uint64_t view_id,
                     const std::vector<std::uint64_t>& incarnations)>
    on_leaving;
  /// Tells the membership actor that a run or a lane of the view with this id
  /// has failed, although no process may be lost.
  std::function<void(std::uint64_t view_id)> on_renewal_wanted;
  /// Tells the membership actor that no lanes can be opened to a member of the
  /// view with this id.
  /// @param is_newer that member has joined the job later than this process.
  std::function<void(std::uint64_t view_id, std::uint64_t incarnation,
                     bool is_newer)>
    on_no_lanes;
  /// Tells the membership actor that this process leaves its job, which goes on
  /// without it.
  std::function<void()> on_giving_up;
  /// The process does not belong to the job yet.
  bool joins = false;
  std::uint32_t task = 0; ///< Task of this process.
  std::string name{};     ///< Name of this process, that of its task.
  /// Maximum time until all processes have stopped and have agreed on a view.
  std::chrono::milliseconds timeout{60'000};
};

/// Makes the replica group of a process whose job can change its view:
///
///   run              runs steps on the group of the current view
///   enter_next_view  destroys that group, reports where its replicas have
///                    stopped, waits until the next view takes effect, and
///                    makes the group of that view. If another process is lost
///                    meanwhile, the view after that one is entered. If no
///                    process is lost, the next view has the same members: it
///                    renews lanes, channels and replicas
///                    Roles are made again in this way, too, if the actor of a
///                    replica has ended. If that happens in this process more
///                    than 3 times within 60 s, or at one step, it leaves its
///                    job, and the others go on as after a loss
///                    If lanes to a member cannot be opened in two views in a
///                    row, one of the two processes is excluded: the one that
///                    has joined later leaves. A process that lacks something
///                    for itself, such as a descriptor, in four views in a row
///                    leaves, too. The others may lack it as well, so it can
///                    save its state
///   let_leave        the same, when all replicas have stopped between two
///                    runs: no run ends, and the view is without those that
///                    want to leave
///   end              if the members of the view cannot agree on the next one,
///                    no process is left with state, this process is excluded,
///                    the view is renewed too often without progress, or
///                    roles of this process end too often
/// A process that joins a running job has no replicas before it enters its
/// first view.
/// @param first the view with which the job has begun, or which a process that
///              joins has learned.
std::unique_ptr<replica_group>
make_elastic_group(const elastic_group_options& options,
                   const membership::view& first);

} // namespace troupe
