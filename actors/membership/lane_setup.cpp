#include "troupe/actors/collectives/shared_arena.hpp"
#include "troupe/actors/membership/cluster_impl.hpp"
#include "troupe/net/transport/lane_set.hpp"

#include <algorithm>
#include <stdexcept>

namespace troupe {

using namespace std::chrono_literals;

/// Opens the lanes in ascending order of the peer's task number. All processes
/// use this order, which prevents deadlock. Proof: sort the pairs of tasks
/// (i, j), i < j, by i and then by j. Take the first pair whose lanes are not
/// open yet. Task i has opened its lanes to all tasks below j, and task j to
/// all tasks below i. So each of the two now opens the lanes to the other.
void cluster::impl::open_lanes() {
  notifier_ = std::make_shared<net::event_notifier>();
  for (std::uint32_t peer = 0; peer < processes(); ++peer)
    if (peer != options.task)
      open_lane(peer);
}

void cluster::impl::open_lane(std::uint32_t peer) {
  const auto incarnation = view_.members[peer].incarnation;
  const auto all_open = [&] {
    return std::ranges::all_of(lane_purposes, [&](const char* purpose) {
      return peers_->streams.contains({peer, incarnation, purpose});
    });
  };
  std::unique_lock hold{peers_->lock};
  peers_->wait(hold, deadline_, [&] { return all_open() || peers_->failed; });
  throw_if_failed(hold);
  if (!all_open()) {
    hold.unlock();
    fail(ec::stalled, options.names[peer] + " did not open its streams to "
                        + own_name() + " in time");
  }
  std::vector<std::unique_ptr<net::stream>> streams;
  for (const auto* purpose : lane_purposes)
    streams.push_back(std::move(
      peers_->streams.extract({peer, incarnation, purpose}).mapped()));
  hold.unlock();
  net::lane_options lane_config;
  lane_config.policy =
    options.transport == transport_kind::automatic ? net::lane_policy::automatic
    : options.transport == transport_kind::shm     ? net::lane_policy::shm
                                                   : net::lane_policy::stream;
  lane_config.is_dialer = peer < options.task;
  lane_config.stream_transport = router_->endpoint().uses_tls() ? "tls" : "tcp";
  lane_config.notifier = notifier_;
  if (lane_config.policy != net::lane_policy::stream)
    lane_config.arena = shared_arena();
  lane_config.handshake_timeout =
    std::max(std::chrono::duration_cast<std::chrono::milliseconds>(
               deadline_ - peer_table::clock::now()),
             1000ms);
  try {
    auto opened = net::open_lanes(std::move(streams), lane_config);
    transports[peer] = opened.transport;
    lanes[peer] = std::move(opened.lanes);
    if (!opened.shm_unavailable_reason.empty() && options.log)
      options.log(net::severity::warning, "no shared memory with "
                                            + options.names[peer] + ": "
                                            + opened.shm_unavailable_reason);
  } catch (const std::runtime_error& e) {
    fail(ec::peer_lost, "no lanes between " + own_name() + " and "
                          + options.names[peer] + ": " + e.what());
  }
}

} // namespace troupe
