#pragma once

#include "troupe/actors/membership/peers/packet_report_exchange.hpp"
#include "troupe/actors/membership/roles/candidate_admission.hpp"
#include "troupe/actors/membership/roles/candidate_role.hpp"
#include "troupe/actors/membership/roles/process_role.hpp"
#include "troupe/actors/membership/roles/recovery_stop.hpp"
#include "troupe/actors/membership/roles/result_exchange.hpp"

#include <memory>
#include <string>

namespace troupe {

/// The parts of a membership actor, and what concerns several of them: the
/// connections, on which each part has a channel, and the change of a candidate
/// to a participant.
class membership_host final : member_role::owner {
public:
  membership_host(membership_context::pointer self,
                  const membership_options& options);
  membership_host(const membership_host&) = delete;
  membership_host& operator=(const membership_host&) = delete;
  ~membership_host() override;

  process_role& role() { return *role_; }
  /// Null: this process is no candidate, or not any more.
  candidate_role* candidate() { return candidate_; }
  member_role& members() { return members_; }
  lost_connections& losses() { return members_.losses(); }
  candidate_admission& admission() { return admission_; }
  result_exchange& results() { return results_; }

  void on(const membership_event::received& x);
  void on(const membership_event::closed& x);
  void on(const membership_event::packet_reports_due& x);
  /// @param job_goes_on the other processes continue, also if this process is
  ///                    the leader.
  void leave(bool job_goes_on);

private:
  std::unique_ptr<process_role> make_role();
  void on_membership(peer_connection& sender, const net::frame& frame);
  void on_view_change(peer_connection& sender, const net::frame& frame);
  void join(const view_change::numbered_proposal& decision);

  void on_lost(const view_change::process_id& process,
               const lost_connections::cut_connection& how) override;
  void on_reconnected(const view_change::process_id& process) override;
  void on_installed(const membership::view& next) override;
  void close_all(const std::string& reason) override;
  void leave_running_job() override { leave(true); }

  const membership_context context_;
  peer_connections connections_{context_};
  member_role members_{context_, connections_, *this};
  candidate_admission admission_{context_, connections_, members_};
  result_exchange results_{context_, connections_, admission_};
  packet_report_exchange packet_reports_{context_, connections_};
  recovery_stop recovery_stop_{context_.options()};
  candidate_role* candidate_ = nullptr; ///< `role_`, if it is a candidate.
  std::unique_ptr<process_role> role_;
};

} // namespace troupe
