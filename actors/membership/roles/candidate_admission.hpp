#pragma once

#include "troupe/actors/membership/peers/peer_connections.hpp"
#include "troupe/actors/membership/view_changes/member_role.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace troupe {

/// Admits candidates to a member of the running job. A candidate is connected
/// when it has the configuration of the job, its task is free, and this process
/// can reach it. Then it may ask to join.
class candidate_admission {
public:
  /// All must outlive this object.
  candidate_admission(const membership_context& context,
                      peer_connections& connections, member_role& members);
  candidate_admission(const candidate_admission&) = delete;
  candidate_admission& operator=(const candidate_admission&) = delete;

  /// Admits a candidate that has connected, dials it first, or rejects it.
  void on(const membership_event::candidate_accepted& x);
  void on(const membership_event::candidate_dialed& x);
  /// A process asks to join. No effect if it is not a candidate.
  void on_join(const peer_connection& sender);
  /// Tells a connected candidate that it cannot join, and closes its
  /// connection.
  void reject(peer_connection& candidate, const std::string& text);
  /// Closes the connections of the candidates that are being dialed.
  void close_all(const std::string& reason);

private:
  std::string reason_to_reject(const membership::join_request& request) const;
  bool is_task_used(std::uint32_t task) const;
  bool is_taken_elsewhere(const membership::join_request& request) const;
  void admit(const membership_event::candidate_accepted& x);
  void dial(const membership::join_request& candidate);
  void close_unreachable(const membership_event::candidate_accepted& candidate,
                         const std::string& why);
  void reject(net::connection& connection, net::channel& control,
              std::uint64_t tag, const std::string& text);

  const membership_context& context_;
  peer_connections& connections_;
  member_role& members_;
  /// By task: processes that ask to join, and that this process dials.
  std::map<std::uint32_t, membership_event::candidate_accepted> dialed_;
  /// Addresses of those that have not answered, for one warning each; not all
  /// if there are many.
  std::set<std::pair<std::string, std::uint16_t>> unreachable_;
};

} // namespace troupe
