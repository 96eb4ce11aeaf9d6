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
/// state of a server ends with its process, so a process that was started again
/// at the same address has another life.
class server_lives {
public:
  using clock = std::chrono::steady_clock;

  /// @param max_losses maximum number of losses after which the run goes on.
  server_lives(troupe::runtime& actors, std::vector<std::string> addresses,
               std::uint64_t max_losses);

  /// Notes the lives of all servers.
  /// @errors throws `job_error` if one cannot be reached.
  void note();

  /// Returns true if one has ended since the last note.
  bool has_loss() const;

  /// Waits until all servers can be reached, and notes their lives. Counts the
  /// losses. Without one, the connection to a server has ended, and this is a
  /// loss too.
  /// @param is_stopped the wait ends when it returns true.
  /// @returns the servers that were lost since the last note, or nothing if
  ///          there were too many losses, if `is_stopped`, or at `end`.
  std::optional<std::vector<std::size_t>>
  wait_for_all(clock::time_point end, const std::function<bool()>& is_stopped);

  /// Number of losses so far.
  std::uint64_t losses() const { return losses_; }
  const std::string& address(std::size_t server) const {
    return addresses_[server];
  }

private:
  /// None: the server cannot be reached.
  using life = std::optional<std::uint64_t>;
  std::vector<life> look() const;

  troupe::runtime& actors_;
  const std::vector<std::string> addresses_;
  const std::uint64_t max_losses_;
  std::vector<life> noted_; ///< By server.
  std::uint64_t losses_ = 0;
};

/// Returns the incarnation of the process at an address. None: no process can
/// be reached there.
/// @errors throws `job_error` if there is one that does not let this process
///         use it.
std::optional<std::uint64_t> find_process(troupe::runtime& actors,
                                          const std::string& address);
