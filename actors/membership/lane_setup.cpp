#include "troupe/actors/core/failure_text.hpp"
#include "troupe/actors/core/shared_arena.hpp"
#include "troupe/actors/membership/cluster_impl.hpp"
#include "troupe/actors/membership/elastic_group/lane_failure.hpp"
#include "troupe/actors/membership/peers/join_hello.hpp"
#include "troupe/net/transport/lane_set.hpp"

#include <caf/send.hpp>

#include <algorithm>
#include <stdexcept>

// The lanes of a view: each process dials those with a lower task, one stream
// for each lane.

namespace troupe {

using namespace std::chrono_literals;

namespace {

/// Time after which the lanes that are missing when a view is renewed count as
/// lanes that could not be opened.
constexpr auto min_lane_time = 1s;
/// Maximum delay, in the start, between the end of a stream and the reason that
/// its peer sends.
constexpr auto max_reason_delay = 2s;

std::chrono::milliseconds until(peer_table::clock::time_point deadline) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
    deadline - peer_table::clock::now());
}

} // namespace

/// Opens the lanes in ascending order of the peer's task number. All processes
/// use this order, which prevents deadlock. Proof: sort the pairs of tasks
/// (i, j), i < j, by i and then by j. Take the first pair whose lanes are not
/// open yet. Task i has opened its lanes to all tasks below j, and task j to
/// all tasks below i. So each of the two now opens the lanes to the other.
std::vector<peer_lanes>
cluster::impl::open_lanes(const membership::view& of,
                          peer_table::clock::time_point deadline) {
  const auto begun = peer_table::clock::now();
  if (joined_)
    wait_for_connections(of, deadline);
  for (const auto& peer : of.members)
    for (const auto* purpose : lane_purposes)
      if (peer.task < options.task)
        dial_stream(of.view_id, peer, purpose, deadline);
  notifier_ = std::make_shared<net::event_notifier>();
  std::vector<peer_lanes> lanes;
  for (const auto& peer : of.members)
    lanes.push_back(peer.task == options.task
                      ? peer_lanes{}
                      : open_lane(of, peer, begun, deadline));
  return lanes;
}

/// Waits until this process has control connections to all others of a view
/// with which the job has not begun. One that was cut is being made again.
void cluster::impl::wait_for_connections(
  const membership::view& of, peer_table::clock::time_point deadline) {
  const auto is_connected = [&](const membership::member& x) {
    const auto& entry = peers_->entries[x.task];
    return x.task == options.task
           || (entry.connection && !entry.closed
               && entry.incarnation == x.incarnation);
  };
  std::unique_lock hold{peers_->lock};
  peers_->wait(hold, deadline, [&] {
    return std::ranges::all_of(of.members, is_connected)
           || is_outdated(of.view_id);
  });
  const auto missing = std::ranges::find_if_not(of.members, is_connected);
  hold.unlock();
  if (missing != of.members.end())
    fail(ec::unreachable,
         own_name() + " has no connection to " + options.names[missing->task]);
}

/// True if another view has taken effect or is being agreed on, or if all runs
/// of this process end. @pre the lock of the peer table is held.
bool cluster::impl::is_outdated(std::uint64_t view_id) const {
  return joined_
         && (peers_->stop.requested || peers_->stop.end_of_runs
             || peers_->no_next_view || peers_->view.view_id != view_id);
}

void cluster::impl::dial_stream(std::uint64_t view_id,
                                const membership::member& peer,
                                const std::string& purpose,
                                peer_table::clock::time_point deadline) {
  const stream_table::stream_id id{view_id, peer.task, peer.incarnation,
                                   purpose};
  const auto& peer_name = options.names[peer.task];
  try {
    router_->endpoint().dial(
      {peer.host, peer.port},
      make_stream_hello(options.job, own_name(), purpose, own_join_request(),
                        view_id),
      std::max(until(deadline), 1ms),
      [peers = peers_, actor = membership_, id, dialer = own_name(),
       name = peer_name](net::endpoint::dial_result&& attempt) {
        auto* stream =
          attempt.connection
            ? std::get_if<std::unique_ptr<net::stream>>(&*attempt.connection)
            : nullptr;
        if (stream)
          return peers->update(
            [&] { peers->streams.add(id, std::move(*stream)); });
        const auto why = dialer + " could not connect to " + name
                         + " for stream " + id.purpose + ": " + attempt.reason;
        peers->update(
          [&] { peers->streams.note_failure(id.view_id, id.task, why); });
        // Delayed, since a peer that ends the start refuses streams and its
        // reason may not have arrived yet. No effect after the start.
        caf::delayed_anon_send(actor, max_reason_delay,
                               membership_event::aborted{ec::stalled, why});
      });
  } catch (const std::invalid_argument& e) { // the leader sent the address
    fail(ec::protocol,
         "the address of " + peer_name + " cannot be used: " + e.what());
  }
}

/// @param begun when this process has begun to open the lanes of the view.
peer_lanes cluster::impl::open_lane(const membership::view& of,
                                    const membership::member& peer,
                                    peer_table::clock::time_point begun,
                                    peer_table::clock::time_point deadline) {
  const auto view_id = of.view_id;
  const auto& peer_name = options.names[peer.task];
  std::unique_lock hold{peers_->lock};
  const auto all_open = [&] { return peers_->streams.has_all(view_id, peer); };
  const auto failure = [&] { return peers_->streams.failure(view_id); };
  peers_->wait(hold, deadline, [&] {
    return all_open() || peers_->failed || is_outdated(view_id)
           || (joined_ && !failure().empty());
  });
  throw_if_failed(hold);
  if (!all_open()) {
    auto why = failure();
    if (why.empty())
      why =
        peer_name + " did not open its streams to " + own_name() + " in time";
    const bool is_early =
      is_outdated(view_id) && peer_table::clock::now() - begun < min_lane_time;
    auto missing = is_early ? std::vector<std::uint32_t>{}
                            : members_without_streams(*peers_, of, peer.task);
    hold.unlock();
    fail_lanes(ec::stalled, why, std::move(missing));
  }
  auto streams = peers_->streams.take_all(view_id, peer);
  hold.unlock();
  net::lane_options lane_config;
  lane_config.policy =
    options.transport == transport_kind::automatic ? net::lane_policy::automatic
    : options.transport == transport_kind::shm     ? net::lane_policy::shm
                                                   : net::lane_policy::stream;
  lane_config.is_dialer = peer.task < options.task;
  lane_config.stream_transport = router_->endpoint().uses_tls() ? "tls" : "tcp";
  lane_config.notifier = notifier_;
  if (lane_config.policy != net::lane_policy::stream)
    lane_config.arena = shared_arena();
  lane_config.handshake_timeout =
    std::max<std::chrono::milliseconds>(until(deadline), 1000ms);
  try {
    auto opened = net::open_lanes(std::move(streams), lane_config);
    transports[peer.task] = opened.transport;
    if (!opened.shm_unavailable_reason.empty() && options.log)
      options.log(net::severity::warning, "no shared memory with " + peer_name
                                            + ": "
                                            + opened.shm_unavailable_reason);
    return std::move(opened.lanes);
  } catch (const std::runtime_error& e) {
    // A process that ends the start has said why, but its streams may have
    // ended before these words arrive.
    if (!joined_) {
      hold.lock();
      peers_->wait(
        hold, std::min(deadline, peer_table::clock::now() + max_reason_delay),
        [this] { return peers_->failed.has_value(); });
      throw_if_failed(hold);
      hold.unlock();
    }
    fail_lanes(ec::peer_lost,
               "no lanes between " + own_name() + " and " + peer_name + ": "
                 + e.what(),
               {peer.task});
  }
}

} // namespace troupe
