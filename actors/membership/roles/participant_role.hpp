#pragma once

#include "troupe/actors/membership/roles/process_role.hpp"
#include "troupe/strategies/membership/participant.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// A process that is neither the leader nor a candidate: hosts
/// `membership::participant`. It dials the leader, and then the participants
/// with a lower task.
class participant_role final : public process_role {
public:
  participant_role(const membership_context& context,
                   peer_connections& connections, member_role& members);
  /// A process that has joined a running job.
  /// @param joined the view with which it belongs to the job.
  /// @param leader incarnation of the leader. None: it was lost.
  participant_role(const membership_context& context,
                   peer_connections& connections, member_role& members,
                   const membership::view& joined,
                   std::optional<std::uint64_t> leader);
  ~participant_role() override;

  void start() override;
  void on(const membership_event::accepted& x) override;
  void on(const membership_event::dialed& x) override;
  void on(const membership_event::lanes_open& x) override;
  void on(const process_id& sender,
          const membership::message& received) override;
  void dial(std::uint32_t task) override;
  void on_closed(const peer_connections::ended_connection& ended,
                 const membership_event::closed& x) override;
  void on_lost(const process_id& process,
               const lost_connections::cut_connection& how) override;
  void on_reconnected(const process_id& process) override;
  void on_installed(const membership::view& next) override;
  void abort(ec code, const std::string& reason) override;
  void leave(bool job_goes_on) override;
  void log_delay() override {} // the leader and candidates do

private:
  void on_view(membership::view&& first) override;
  void on_started() override;
  void on_start_failed(const std::string& text) override;
  void on_timeout() override;
  membership::reaction on_ready() override { return machine_.on_ready(); }

  void on_leader_dialed(net::endpoint::dial_result& attempt);
  void on_peer_dialed(std::uint32_t task, net::endpoint::dial_result& attempt);
  void close_early(const std::string& reason);

  membership::participant machine_;
  /// Participants that have connected before this one knew the view.
  std::vector<membership_event::accepted> early_;
  caf::timespan peer_deadline_{}; ///< End of the attempts to dial participants.
  /// Reason for which the leader has rejected this process. Empty: none.
  std::string last_rejection_;
};

} // namespace troupe
