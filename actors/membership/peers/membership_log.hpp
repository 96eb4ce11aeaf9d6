#pragma once

#include "troupe/actors/flight/flight_recorder.hpp"
#include "troupe/actors/membership/peers/membership_options.hpp"
#include "troupe/net/base/close_reason.hpp"

#include <cstdint>
#include <string>

namespace troupe {

/// Writes what happens to the processes of a job to the log and to the flight
/// recorder of one of them.
class membership_log {
public:
  /// @param options must outlive this object.
  explicit membership_log(const membership_options& options)
    : options_{options} {}

  void info(const std::string& line) const;
  void warn(const std::string& line) const;
  void note(const flight_event& event) const;

  /// A process has connected. @pre the table does not have its incarnation yet.
  void note_connected(std::uint32_t task, std::uint64_t incarnation) const;
  /// The connection to a process has ended.
  void note_lost(std::uint32_t task, net::close_reason cause,
                 const std::string& reason) const;
  /// A process is known to have ended.
  void note_dead(std::uint64_t incarnation) const;
  /// Records a view, and which processes it loses and gains. @pre the table
  /// still has the view before it.
  void note_installed(const membership::view& next) const;

private:
  const membership_options& options_;
};

} // namespace troupe
