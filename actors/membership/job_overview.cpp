#include "troupe/actors/membership/job_overview.hpp"

#include "troupe/actors/core/failure_text.hpp"

#include <algorithm>

namespace troupe {

namespace {

member_state state_of(const peer_table::peer_entry& peer, bool begun) {
  if (peer.has_left)
    return member_state::left;
  if (peer.closed)
    return peer.closed->first == net::close_reason::timed_out
             ? member_state::unreachable
             : member_state::lost;
  if (!peer.connection)
    return member_state::absent;
  return begun ? member_state::active : member_state::joining;
}

/// @pre the lock of the table is held.
void add_members(const job_overview& overview, job_status& status) {
  const auto& peers = *overview.peers;
  for (std::uint32_t p = 0; p < overview.names.size(); ++p) {
    member_status member{overview.names[p], overview.incarnation, 0,
                         peers.started ? member_state::active
                                       : member_state::joining};
    if (p == overview.task && peers.excluded) {
      member.state =
        peers.has_left ? member_state::left : member_state::unreachable;
    } else if (p != overview.task) {
      const auto& peer = peers.entries[p];
      member.incarnation = peer.incarnation;
      member.state = state_of(peer, peers.started);
      if (peer.connection)
        member.since_contact_ms =
          static_cast<std::uint64_t>(peer.connection->silence().count());
    }
    status.members.push_back(std::move(member));
  }
}

/// Says why the job cannot begin.
void explain_start(const job_overview& overview, job_status& status) {
  failure_report absent{.kind = failure_kind::job_not_joined,
                        .code = ec::stalled};
  for (std::uint32_t p = 0; p < status.members.size(); ++p)
    if (status.members[p].state == member_state::absent)
      absent.processes.push_back(p);
  if (absent.processes.empty())
    return;
  const named_processes named{overview.names, placement{}};
  status.stall_reason = describe(absent, named);
  status.missing = missing_roles(absent, named, 0);
}

/// Says which members a view change waits for, as far as this process knows.
/// @pre the lock of the table is held.
void explain_view_change(const job_overview& overview, std::uint64_t since_ms,
                         job_status& status) {
  const auto& peers = *overview.peers;
  failure_report report{.kind = failure_kind::view_not_agreed,
                        .code = ec::stalled,
                        .generation = peers.view.view_id + 1,
                        .timeout_ms = since_ms};
  for (const auto& x : peers.view.members)
    if (status.members.at(x.task).state != member_state::active)
      report.processes.push_back(x.task);
  const named_processes named{overview.names, placement{}};
  status.stall_reason = describe(report, named);
  status.missing = missing_roles(report, named, since_ms);
}

/// Says that the job goes on without this process.
void explain_exclusion(const peer_table& peers, job_status& status) {
  status.missing.clear();
  status.stall_reason = peers.has_left
                          ? "this process has left its job"
                          : "the job goes on without this process, from view "
                              + std::to_string(peers.view.view_id)
                              + " on; ask one of its other processes";
}

} // namespace

void add_decisions(const std::shared_ptr<flight_recorder>& recorder,
                   job_status& status) {
  if (recorder)
    status.decisions = decisions_of(recorder->events(), recorder->identity(),
                                    recorder->now_ns());
}

membership::vacancies vacancies_of(const job_overview& overview) {
  const auto& peers = *overview.peers;
  const std::lock_guard hold{overview.peers->lock};
  if (!peers.started || peers.excluded || peers.no_next_view
      || !peers.view.contains(overview.task, overview.incarnation))
    return {};
  membership::vacancies out{peers.view, {}};
  for (std::uint32_t task = 0; task < peers.entries.size(); ++task) {
    const auto& peer = peers.entries[task];
    const bool is_joining = peer.connection && !peer.closed;
    if (!peers.view.find(task) && !is_joining)
      out.tasks.push_back(task);
  }
  return out;
}

void add_overview(const job_overview& overview, job_status& status) {
  auto& peers = *overview.peers;
  add_decisions(peers.recorder, status);
  const std::lock_guard hold{peers.lock};
  status.job = overview.job;
  status.view_id = peers.view.view_id;
  add_members(overview, status);
  if (peers.excluded) {
    explain_exclusion(peers, status);
  } else if (!peers.started && status.stall_reason.empty()) {
    explain_start(overview, status);
  } else if (peers.stop.requested) {
    const auto open =
      std::ranges::find(status.decisions.rbegin(), status.decisions.rend(),
                        false, &decision::complete);
    explain_view_change(
      overview, open == status.decisions.rend() ? 0 : open->ago_ms, status);
  }
}

} // namespace troupe
