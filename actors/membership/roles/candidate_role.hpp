#pragma once

#include "troupe/actors/membership/roles/process_role.hpp"
#include "troupe/strategies/membership/candidate.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace troupe {

/// A process that joins a running job: hosts `membership::candidate`. It dials
/// all processes of the job, and accepts none. When it is a member of a view,
/// it becomes a participant.
class candidate_role final : public process_role {
public:
  candidate_role(const membership_context& context,
                 peer_connections& connections, member_role& members);

  void start() override;
  void on(const membership_event::accepted& x) override;
  void on(const membership_event::dialed& x) override;
  // `elastic_group` opens its lanes.
  void on(const membership_event::lanes_open&) override {}
  void on(const process_id& sender,
          const membership::message& received) override;
  void dial(std::uint32_t task) override;
  void on_closed(const peer_connections::ended_connection& ended,
                 const membership_event::closed& x) override;
  // These are for members only.
  void on_lost(const process_id&,
               const lost_connections::cut_connection&) override {}
  void on_reconnected(const process_id&) override {}
  void on_installed(const membership::view&) override {}
  void abort(ec, const std::string&) override {} // `elastic_group` throws
  void leave(bool job_goes_on) override;
  /// Says why the job does not accept this process.
  void log_delay() override;

  /// The program of this process has come to the call that the job makes.
  void ask();
  void repeat_ask();
  /// This process has lost all its connections some time ago.
  void on_connections_overdue();
  /// A member has sent a message of a view change.
  /// @returns true if the message is the decision by which this process has
  ///          joined.
  bool joins_with(const process_id& sender,
                  const view_change::message& received);
  /// As in `membership::candidate`.
  std::optional<std::uint64_t> leader() const { return machine_.leader(); }

private:
  void on_view(membership::view&& first) override;
  void on_started() override;
  void on_start_failed(const std::string&) override {}
  void on_timeout() override;
  membership::reaction on_ready() override { return {}; }

  bool has_rivals() const;
  void dial_all();
  void dial_later(std::uint32_t task);
  void give_way();
  void note_refusal(std::uint32_t task);
  std::string refusal() const;

  membership::candidate machine_;
  /// Tasks that were last dialed at the address in a view.
  std::set<std::uint32_t> dialed_by_view_;
  /// By task: why a process has closed the last connection to it.
  std::map<std::uint32_t, std::string> refusals_;
  /// Why the last attempt to connect has failed, or the last connection has
  /// ended. Empty: neither has happened.
  std::string last_failure_;
  /// The first member has accepted this process, which has rivals.
  bool is_first_accepted_ = false;
  /// `connections_overdue` has been sent.
  bool awaits_connections_ = false;
};

} // namespace troupe
