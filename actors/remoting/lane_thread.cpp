#include "troupe/actors/remoting/lane_thread.hpp"

#include "troupe/actors/core/spawn.hpp"

#include <exception>
#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

/// If the peer closes lane and connection, the lane's end may be seen first.
/// For this time the thread waits for the connection's own reason.
constexpr std::chrono::milliseconds close_delay{1000};

} // namespace

lane_thread::lane_thread(std::shared_ptr<net::connection> connection,
                         std::shared_ptr<connection_lane> lane,
                         std::future<std::unique_ptr<net::stream>> stream,
                         const options& thread_options)
  : lane_{std::move(lane)}, options_{thread_options} {
  connection->on_closed(
    [stopped = lane_](net::close_reason, const std::string&) {
      stopped->stop();
    });
  thread_ =
    std::thread{[this, connection, stream = std::move(stream)]() mutable {
      run(*connection, std::move(stream));
      connection.reset();
      release_caf_logger();
      finished_ = true;
    }};
}

lane_thread::~lane_thread() {
  lane_->stop();
  thread_.join();
}

void lane_thread::run(net::connection& connection,
                      std::future<std::unique_ptr<net::stream>> stream) {
  const auto closed = run_lane(std::move(stream));
  const bool is_violation =
    closed && closed->cause == net::close_reason::protocol_error;
  if (closed && (is_violation || !lane_->wait_for_stop(close_delay))) {
    const auto reason = "the lane for tensors has ended: " + closed->reason;
    connection.close(reason);
    if (options_.log)
      options_.log(net::severity::warning, "the connection to '"
                                             + connection.peer().name
                                             + "' is closed: " + reason);
  }
  lane_->end(closed);
}

/// Opens the lane and drives it. @returns why it has ended. Nullopt: it was
/// stopped.
std::optional<net::lane::closed_state>
lane_thread::run_lane(std::future<std::unique_ptr<net::stream>> stream) {
  try {
    if (stream.wait_for(options_.lane.handshake_timeout)
        != std::future_status::ready)
      throw std::runtime_error{"the peer did not open it in time"};
    std::vector<std::unique_ptr<net::stream>> streams;
    streams.push_back(stream.get());
    auto opened = net::open_lanes(std::move(streams), options_.lane);
    return lane_->run(std::move(opened.lanes.front()));
  } catch (const std::future_error&) {
    return std::nullopt; // the connection has ended
  } catch (const std::exception& e) {
    return net::lane::closed_state{net::close_reason::closed, e.what()};
  }
}

} // namespace troupe
