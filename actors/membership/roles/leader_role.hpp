#pragma once

#include "troupe/actors/membership/roles/process_role.hpp"
#include "troupe/strategies/membership/leader.hpp"

#include <cstdint>
#include <map>
#include <string>

namespace troupe {

/// The process of task 0 of a job that it starts: hosts
/// `membership::leader`. It accepts the processes that ask for a task, and
/// dials none.
class leader_role final : public process_role {
public:
  leader_role(const membership_context& context, peer_connections& connections,
              member_role& members);

  void start() override;
  void on(const membership_event::accepted& x) override;
  void on(const membership_event::dialed&) override {}
  void on(const membership_event::lanes_open& x) override;
  void on(const process_id& sender,
          const membership::message& received) override;
  void dial(std::uint32_t) override {}
  void on_closed(const peer_connections::ended_connection&,
                 const membership_event::closed&) override {} // see `on_lost`
  void on_lost(const process_id& process,
               const lost_connections::cut_connection& how) override;
  void on_reconnected(const process_id& process) override;
  void on_installed(const membership::view& next) override;
  void abort(ec code, const std::string& reason) override;
  void leave(bool job_goes_on) override;
  /// Names the tasks that are missing.
  void log_delay() override;

private:
  void on_view(membership::view&& first) override;
  void on_started() override;
  void on_start_failed(const std::string&) override {}
  void on_timeout() override;
  membership::reaction on_ready() override { return machine_.on_ready(); }

  void reject(net::connection& connection, const membership::rejection& why);
  std::string rejected_text() const;

  membership::leader machine_;
  /// By task: why the leader last rejected a process that asked for it.
  std::map<std::uint32_t, std::string> rejections_;
};

} // namespace troupe
