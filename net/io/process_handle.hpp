#pragma once

#include "troupe/net/base/descriptor.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

namespace troupe::net {

/// Names one life of a process, also after its number was given to another
/// process.
struct process_identity {
  /// The boot of the host and the namespace of process numbers. Empty: unknown.
  std::string host;
  std::uint64_t number = 0;     ///< Process number (pid) in that namespace.
  std::uint64_t start_time = 0; ///< In clock ticks since the boot of the host.

  auto fields() { return std::tie(host, number, start_time); }
  friend bool operator==(const process_identity&,
                         const process_identity&) = default;
};

/// Returns the identity of this process. The host is empty if /proc cannot be
/// read.
process_identity own_process_identity();

/// Returns the start time of a process as in its identity. Zero: there is no
/// such process.
std::uint64_t start_time_of_process(std::uint64_t number);

/// Another process of this host. Says when it has ended.
class process_handle {
public:
  virtual ~process_handle() = default;
  process_handle(process_handle&&) = default;
  process_handle& operator=(process_handle&&) = default;

  /// @returns nullopt if the process is not in this host's namespace of process
  ///          numbers, has ended before, or cannot be watched.
  static std::optional<process_handle> open(const process_identity& of);

  /// Returns true if the process has ended. Does not wait.
  virtual bool has_ended() const;
  std::uint64_t number() const { return number_; } ///< Its pid.

protected:
  /// For tests and simulations: no process of the system.
  explicit process_handle(std::uint64_t number) : number_{number} {}

private:
  process_handle(descriptor pidfd, std::uint64_t number)
    : pidfd_{std::move(pidfd)}, number_{number} {}

  descriptor pidfd_;
  std::uint64_t number_;
};

} // namespace troupe::net
