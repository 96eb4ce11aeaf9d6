#pragma once

#include "troupe/actors/remoting/connection_lane.hpp"
#include "troupe/net/base/log_function.hpp"
#include "troupe/net/session/connection.hpp"
#include "troupe/net/transport/lane_set.hpp"

#include <atomic>
#include <future>
#include <thread>

namespace troupe {

/// The thread that opens and drives the lane of one connection. If the lane
/// ends first, the thread ends the connection, so that a role has one way to be
/// lost.
class lane_thread {
public:
  struct options {
    /// How the lane is opened; it has one stream. The timeout of the handshake
    /// also bounds the wait for the stream.
    net::lane_options lane{};
    /// Receives a warning if the lane ends before the connection. Null: no
    /// line.
    net::log_function log{};
  };

  /// Starts the thread.
  /// @param stream becomes the stream of the lane. If its promise is destroyed,
  ///               the lane ends.
  lane_thread(std::shared_ptr<net::connection> connection,
              std::shared_ptr<connection_lane> lane,
              std::future<std::unique_ptr<net::stream>> stream,
              const options& thread_options);

  /// Stops the lane and waits for the thread, at most for the timeout of the
  /// handshake.
  ~lane_thread();
  lane_thread(const lane_thread&) = delete;
  lane_thread& operator=(const lane_thread&) = delete;

  /// True if the thread has ended, so that the destructor does not wait.
  bool finished() const { return finished_; }

private:
  void run(net::connection& connection,
           std::future<std::unique_ptr<net::stream>> stream);
  std::optional<net::lane::closed_state>
  run_lane(std::future<std::unique_ptr<net::stream>> stream);

  const std::shared_ptr<connection_lane> lane_;
  const options options_;
  std::atomic<bool> finished_ = false;
  std::thread thread_;
};

} // namespace troupe
