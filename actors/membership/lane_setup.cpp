#include "troupe/actors/collectives/shared_arena.hpp"
#include "troupe/actors/membership/cluster_impl.hpp"
#include "troupe/net/transport/lane_pair.hpp"

#include <stdexcept>

namespace troupe {

using namespace std::chrono_literals;

/// Opens the lanes in ascending order of the peer's task number. All processes
/// use this order, which prevents deadlock: of all pairs still to be opened,
/// both processes of the lowest pair work on it.
void cluster::inside::open_lanes() {
  bell_ = std::make_shared<net::bell>();
  for (std::uint32_t peer = 0; peer < processes(); ++peer)
    if (peer != options.index)
      open_lane(peer);
}

void cluster::inside::open_lane(std::uint32_t peer) {
  const auto now = table_.members[peer].incarnation;
  const hall::stream_key parts{peer, now, "parts"}, sums{peer, now, "sums"};
  std::unique_lock hold{hall_->lock};
  hall_->wait(hold, deadline_, [&] {
    return (hall_->streams.contains(parts) && hall_->streams.contains(sums))
           || hall_->failed();
  });
  check_news(hold);
  if (!hall_->streams.contains(parts) || !hall_->streams.contains(sums)) {
    hold.unlock();
    fail(ec::stalled, options.names[peer] + " did not open its streams to "
                        + me() + " in time");
  }
  auto a = std::move(hall_->streams[parts]);
  auto b = std::move(hall_->streams[sums]);
  hold.unlock();
  net::channel_options how;
  how.policy =
    options.transport == transport_kind::automatic ? net::lane_policy::automatic
    : options.transport == transport_kind::shm     ? net::lane_policy::shm
                                                   : net::lane_policy::stream;
  how.dialed = peer < options.index;
  how.over = door_->endpoint().speaks_tls() ? "tls" : "tcp";
  how.my_bell = bell_;
  if (how.policy != net::lane_policy::stream)
    how.my_arena = shared_arena();
  how.patience = std::max(std::chrono::duration_cast<std::chrono::milliseconds>(
                            deadline_ - hall::clock::now()),
                          1000ms);
  try {
    auto it = net::open_channel(std::move(a), std::move(b), how);
    transports[peer] = it.transport;
    lanes[peer] = {std::move(it.parts), std::move(it.sums)};
    if (!it.why_no_shm.empty() && options.log)
      options.log(net::severity::warning, "no shared memory with "
                                            + options.names[peer] + ": "
                                            + it.why_no_shm);
  } catch (const std::runtime_error& e) {
    fail(ec::peer_lost, "no lanes between " + me() + " and "
                          + options.names[peer] + ": " + e.what());
  }
}

} // namespace troupe
