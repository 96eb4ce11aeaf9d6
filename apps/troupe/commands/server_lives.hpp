#pragma once

#include "troupe/actors/runtime/runtime.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

/// The parameter servers of a run without copies, as the chief sees them. The
/// state of a server ends with its process. A process that was started again at
/// the same address has another incarnation.
class server_lives {
public:
  using clock = std::chrono::steady_clock;

  /// @param max_losses maximum number of losses after which the run goes on.
  server_lives(troupe::runtime& actors, std::vector<std::string> addresses,
               std::uint64_t max_losses);

  /// Notes the incarnations of all servers.
  /// @errors throws `job_error` if one cannot be reached or refuses this
  ///         process.
  void note_incarnations();

  /// Returns true if a server cannot be reached, or has another incarnation
  /// than the noted one.
  /// @errors throws `job_error` if a server refuses this process.
  bool has_loss() const;

  /// Waits until all servers can be reached, and notes their incarnations. Each
  /// server with another incarnation counts as a loss. If no process was lost,
  /// the connection to one has ended. That counts as one loss.
  /// @param is_stopped the wait ends when it returns true.
  /// @returns the servers that were lost since the last note, or nothing if
  ///          there were too many losses, if `is_stopped`, or at `end`.
  /// @errors throws `job_error` if a server refuses this process.
  std::optional<std::vector<std::size_t>>
  wait_for_all(clock::time_point end, const std::function<bool()>& is_stopped);

  /// Number of losses so far.
  std::uint64_t losses() const { return losses_; }
  const std::string& address(std::size_t server) const {
    return addresses_[server];
  }

private:
  troupe::runtime& actors_;
  const std::vector<std::string> addresses_;
  const std::uint64_t max_losses_;
  std::vector<std::uint64_t> noted_; ///< Incarnations, by server.
  std::uint64_t losses_ = 0;
};
