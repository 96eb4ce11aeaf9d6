#pragma once

#include "troupe/actors/membership/roles/candidate_admission.hpp"

#include <cstdint>
#include <set>

namespace troupe {

/// Exchanges the results of the calls of the job. A process that joins asks all
/// others for them, and appends the answers to its log.
class result_exchange {
public:
  /// All must outlive this object.
  result_exchange(const membership_context& context,
                  peer_connections& connections, candidate_admission& admission)
    : context_{context}, connections_{connections}, admission_{admission} {}

  /// Asks all connected processes.
  void on(const membership_event::request_results& x);
  /// A process asks, or answers.
  void on(peer_connection& sender, const net::frame& frame);
  /// A process has answered the last request, or is lost.
  void note_answer(std::uint32_t task);

private:
  void answer(peer_connection& asker, std::uint64_t first);
  void take(peer_connection& sender, membership::call_results&& answered);

  const membership_context& context_;
  peer_connections& connections_;
  candidate_admission& admission_;
  /// Call of the last request of results, and tasks that have not answered it.
  std::uint64_t requested_call_ = 0;
  std::set<std::uint32_t> unanswered_;
};

} // namespace troupe
