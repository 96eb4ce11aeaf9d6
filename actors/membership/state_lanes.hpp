#pragma once

#include "troupe/actors/remoting/transfer_lane.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

class cluster;

/// Lanes over which a process that joins copies the state of a member, while
/// the members go on.
class state_lanes {
public:
  /// Opens the lane of an accepted stream. It blocks, at most for the time that
  /// the acceptor gave.
  /// @errors throws std::runtime_error if the lane cannot be opened.
  using opener = std::function<std::unique_ptr<transfer_lane>()>;

  virtual ~state_lanes() = default;

  /// Accepts lanes of processes that join from now on, until this object is
  /// destroyed. A second call replaces the function.
  /// @param accepted must not block. It is called on a thread of the network.
  virtual void serve(std::function<void(opener)> accepted) = 0;

  /// Returns the tasks of the members that a process which joins can ask for
  /// the state. The chief, which has the most to do, is the last one.
  virtual std::vector<std::uint32_t> sources() const = 0;

  /// Opens a lane to a member.
  /// @param timeout of the connection. The two sides then agree on the
  ///                transport within 2 s.
  /// @errors throws `job_error` or std::runtime_error if that fails or takes
  ///         longer.
  virtual std::unique_ptr<transfer_lane>
  open(std::uint32_t task, std::chrono::milliseconds timeout) = 0;

  /// Display name of a task.
  virtual std::string name(std::uint32_t task) const = 0;
};

/// Makes the lanes of a cluster of several processes. The cluster must outlive
/// them.
std::unique_ptr<state_lanes> make_state_lanes(cluster& job_cluster);

} // namespace troupe
