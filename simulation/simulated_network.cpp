#include "troupe/actors/protocol/atoms.hpp"
#include "troupe/simulation/simulated_connection.hpp"
#include "troupe/simulation/simulated_lane.hpp"
#include "troupe/simulation/simulated_network_core.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace troupe::simulation {

namespace {

/// Runs the network's scheduled calls when they are due on the simulator's
/// clock.
caf::behavior network_timer(caf::event_based_actor*,
                            std::weak_ptr<network_core> network) {
  return {[network](atom::wake) {
    if (const auto it = network.lock())
      it->run_due();
  }};
}

void check(const network_options& options) {
  const auto refuse = [](const std::string& what, const std::string& why) {
    throw std::invalid_argument("a network with " + what + ": " + why);
  };
  if (options.latency.count() < 0 || options.jitter.count() < 0)
    refuse("a negative latency or jitter", "give 0 ns or more");
  if (!(options.bandwidth >= 0) || std::isinf(options.bandwidth))
    refuse("bandwidth " + std::to_string(options.bandwidth),
           "give bytes per second, or 0 for no limit");
  if (options.lanes > net::max_lanes)
    refuse(std::to_string(options.lanes) + " lanes between two processes",
           "give at most " + std::to_string(net::max_lanes));
  if (options.lane_capacity < 1)
    refuse("a lane capacity of 0 packets", "give 1 or more");
  if (options.heartbeat_timeout <= std::chrono::milliseconds{0})
    refuse("heartbeat_timeout "
             + std::to_string(options.heartbeat_timeout.count()) + " ms",
           "give 1 ms or more");
  if (options.heartbeat_interval < std::chrono::milliseconds{0}
      || 2 * options.heartbeat_interval > options.heartbeat_timeout)
    refuse("heartbeat_interval "
             + std::to_string(options.heartbeat_interval.count()) + " ms",
           "give 0 ms to half the heartbeat_timeout, which is "
             + std::to_string(options.heartbeat_timeout.count()) + " ms");
}

} // namespace

// -- time ---------------------------------------------------------------------

network_core::core(simulator& sim, std::uint32_t count,
                   const network_options& options)
  : options{options}, processes(count), sim_{sim}, rng_{sim.draw()} {}

void network_core::open() {
  timer_ = sim_.spawn(network_timer, weak_from_this());
}

void network_core::schedule(time due, std::function<void()> fn) {
  events_.emplace(due, std::move(fn));
  caf::delayed_anon_send(timer_, std::max(due - now(), time{0}), atom::wake_v);
}

void network_core::run_due() {
  while (!events_.empty() && events_.begin()->first <= now()) {
    const auto fn = std::move(events_.begin()->second);
    events_.erase(events_.begin());
    fn();
  }
}

void network_core::when_running(std::uint32_t process,
                                std::function<void()> fn) {
  auto& it = processes[process];
  if (it.paused)
    it.deferred.push_back(std::move(fn));
  else
    fn();
}

namespace {

network_core::time scale(network_core::time x, double factor) {
  const auto ns = static_cast<double>(x.count()) * factor;
  return network_core::time{static_cast<std::int64_t>(std::min(ns, 1e18))};
}

} // namespace

network_core::time network_core::sample_latency(std::uint32_t sender,
                                                std::uint32_t receiver) {
  auto out = options.latency;
  if (options.jitter.count() > 0)
    out += time{static_cast<std::int64_t>(
      rng_() % (static_cast<std::uint64_t>(options.jitter.count()) + 1))};
  return scale(
    out, std::max(processes[sender].slowdown, processes[receiver].slowdown));
}

network_core::transit network_core::send(direction& path, std::size_t bytes) {
  auto& sender = processes[path.sender];
  const auto begin = std::max(now(), sender.idle_at);
  if (options.bandwidth > 0)
    sender.idle_at =
      begin
      + scale(std::chrono::seconds{1},
              static_cast<double>(bytes) / options.bandwidth
                * std::max(sender.slowdown, processes[path.receiver].slowdown));
  else
    sender.idle_at = begin;
  const auto latency = sample_latency(path.sender, path.receiver);
  transit out;
  out.first_byte = std::max(path.last_arrival, begin + latency);
  out.last_byte = std::max(out.first_byte, sender.idle_at + latency);
  path.last_arrival = out.last_byte;
  ++sent.messages;
  sent.bytes += bytes;
  if (out.last_byte < sender.last_arrival)
    ++sent.reorderings;
  sender.last_arrival = std::max(sender.last_arrival, out.last_byte);
  return out;
}

void network_core::notify(std::uint32_t process) const {
  if (const auto& fn = processes[process].on_lane_event)
    fn();
}

void network_core::disconnect(const process_pair& between,
                              net::close_reason reason) {
  for (const auto* links : {&dialed, &made_lanes})
    for (const auto& [ends, made] : *links)
      if (const auto link = made.lock(); link && ends == between)
        link->disconnect(reason);
  if (const auto it = lanes.find(between); it != lanes.end())
    for (const auto& lane : it->second)
      lane->disconnect(reason);
  if (const auto it = connections.find(between); it != connections.end())
    it->second->disconnect(reason);
}

// -- interface ----------------------------------------------------------------

simulated_network::simulated_network(simulator& sim, std::uint32_t count,
                                     const network_options& options) {
  check(options);
  core_ = std::make_shared<core>(sim, count, options);
  core_->open();
  for (std::uint32_t p = 0; p < count; ++p)
    for (std::uint32_t q = p + 1; q < count; ++q)
      for (std::size_t i = 0; i < options.lanes; ++i)
        core_->lanes[{p, q}].push_back(make_simulated_lane(core_, {p, q}));
}

simulated_network::~simulated_network() = default;

std::shared_ptr<net::connection>
simulated_network::connection(std::uint32_t process, std::uint32_t peer) {
  const network_core::process_pair between = std::minmax(process, peer);
  auto& link = core_->connections[between];
  if (!link)
    link = make_simulated_connection(core_, between);
  return make_connection_end(link, process > peer, {});
}

void simulated_network::listen(std::uint32_t process,
                               const net::hello& own_hello, acceptor accept,
                               admission admit) {
  auto& listener = core_->processes.at(process);
  listener.own_hello = own_hello;
  listener.admit = std::move(admit);
  listener.accept = std::move(accept);
}

namespace {

/// Delay between two attempts of a dial.
constexpr std::chrono::milliseconds retry_delay{20};

/// An attempt to open a control connection, which is repeated until it succeeds
/// or its deadline has passed.
struct dial_attempt : std::enable_shared_from_this<dial_attempt> {
  std::weak_ptr<network_core> network;
  std::uint32_t process = 0, peer = 0;
  std::uint64_t life = 0; ///< Number of restarts of `process` at the dial.
  net::hello own_hello;
  network_core::time deadline{};
  std::function<void(net::endpoint::dial_result&&)> on_done;

  /// Returns the network, unless it is gone or `process` has ended.
  std::shared_ptr<network_core> active() const {
    const auto net = network.lock();
    const bool ended = !net || net->processes[process].disconnected
                       || net->processes[process].restarts != life;
    return ended ? nullptr : net;
  }

  void after(network_core& net, network_core::time delay,
             void (dial_attempt::*next)()) {
    net.schedule(net.now() + delay,
                 [self = shared_from_this(), next] { (self.get()->*next)(); });
  }

  void send() {
    if (const auto net = active())
      after(*net, net->sample_latency(process, peer), &dial_attempt::arrive);
  }

  void arrive() {
    const auto net = active();
    if (!net)
      return;
    auto& target = net->processes[peer];
    const network_core::process_pair between = std::minmax(process, peer);
    if (!target.accept || target.disconnected || target.paused
        || net->separated.contains(between))
      return fail(*net);
    result.peer = target.own_hello;
    if (target.admit)
      result.reason = target.admit(own_hello);
    if (!result.reason.empty()) {
      result.rejected = true;
      return after(*net, net->sample_latency(peer, process),
                   &dial_attempt::finish);
    }
    const auto link = make_simulated_connection(net, between);
    std::erase_if(net->dialed,
                  [](const auto& x) { return x.second.expired(); });
    net->dialed.emplace_back(between, link);
    result.connection =
      make_connection_end(link, process > peer, target.own_hello);
    target.accept(own_hello,
                  make_connection_end(link, peer > process, own_hello));
    after(*net, net->sample_latency(peer, process), &dial_attempt::finish);
  }

  void fail(network_core& net) {
    if (net.now() + retry_delay < deadline)
      return after(net, retry_delay, &dial_attempt::send);
    result.reason = "process " + std::to_string(peer) + " does not answer";
    result.cause = net::close_reason::timed_out;
    finish();
  }

  void finish() {
    if (const auto net = active())
      net->when_running(process, [self = shared_from_this()] {
        if (self->active())
          self->on_done(std::move(self->result));
      });
  }

  net::endpoint::dial_result result;
};

} // namespace

void simulated_network::dial(
  std::uint32_t process, std::uint32_t peer, const net::hello& own_hello,
  std::chrono::milliseconds timeout,
  std::function<void(net::endpoint::dial_result&&)> on_done) {
  const auto attempt = std::make_shared<dial_attempt>();
  attempt->network = core_;
  attempt->process = process;
  attempt->peer = peer;
  attempt->life = core_->processes.at(process).restarts;
  attempt->own_hello = own_hello;
  attempt->deadline = core_->now() + timeout;
  attempt->on_done = std::move(on_done);
  attempt->send();
}

peer_lanes simulated_network::lanes(std::uint32_t process, std::uint32_t peer) {
  peer_lanes ends;
  for (const auto& lane : core_->lanes.at(std::minmax(process, peer)))
    ends.push_back(make_lane_end(lane, process > peer));
  return ends;
}

std::pair<peer_lanes, peer_lanes>
simulated_network::make_lanes(std::uint32_t process, std::uint32_t peer) {
  const network_core::process_pair between = std::minmax(process, peer);
  std::erase_if(core_->made_lanes,
                [](const auto& x) { return x.second.expired(); });
  std::pair<peer_lanes, peer_lanes> ends;
  for (std::size_t i = 0; i < collective::lane_ids.size(); ++i) {
    const auto lane = make_simulated_lane(core_, between, true);
    core_->made_lanes.emplace_back(between, lane);
    ends.first.push_back(make_lane_end(lane, process > peer));
    ends.second.push_back(make_lane_end(lane, peer > process));
  }
  return ends;
}

void simulated_network::deliver(std::uint32_t sender, std::uint32_t receiver,
                                std::function<void()> fn) {
  const auto lives = [net = core_.get(), sender, receiver] {
    const auto& all = net->processes;
    return std::pair{all[sender].restarts, all[receiver].restarts};
  };
  core_->schedule(
    core_->now() + core_->sample_latency(sender, receiver),
    [net = core_.get(), sender, receiver, lives, before = lives(),
     fn = std::move(fn)] {
      net->when_running(receiver, [net, sender, receiver, lives, before, fn] {
        const auto& all = net->processes;
        if (!all[sender].disconnected && !all[receiver].disconnected
            && lives() == before
            && !net->separated.contains(std::minmax(sender, receiver)))
          fn();
      });
    });
}

void simulated_network::call_later(std::chrono::nanoseconds delay,
                                   std::function<void()> fn) {
  core_->schedule(core_->now() + delay, std::move(fn));
}

void simulated_network::observe(frame_observer fn) {
  core_->on_frame = std::move(fn);
}

void simulated_network::on_lane_event(std::uint32_t process,
                                      std::function<void()> fn) {
  core_->processes.at(process).on_lane_event = std::move(fn);
}

void simulated_network::notify_later(std::uint32_t process,
                                     std::chrono::nanoseconds delay) {
  core_->schedule(core_->now() + delay,
                  [it = core_.get(), process] { it->notify(process); });
}

void simulated_network::disconnect(std::uint32_t process,
                                   net::close_reason reason) {
  if (std::exchange(core_->processes.at(process).disconnected, true))
    return;
  const auto cut = [&](const network_core::process_pair& between,
                       simulated_link& link) {
    if (between.first == process || between.second == process)
      link.disconnect(reason);
  };
  for (const auto& [between, pair] : core_->lanes)
    for (const auto& lane : pair)
      cut(between, *lane);
  for (const auto& [between, link] : core_->connections)
    cut(between, *link);
  for (const auto* links : {&core_->dialed, &core_->made_lanes})
    for (const auto& [between, made] : *links)
      if (const auto link = made.lock())
        cut(between, *link);
}

void simulated_network::cut(std::uint32_t process, std::uint32_t peer) {
  core_->disconnect(std::minmax(process, peer), net::close_reason::closed);
}

void simulated_network::separate(std::uint32_t process, std::uint32_t peer) {
  const network_core::process_pair between = std::minmax(process, peer);
  core_->separated.insert(between);
  core_->disconnect(between, net::close_reason::timed_out);
}

void simulated_network::pause(std::uint32_t process) {
  core_->processes.at(process).paused = true;
}

void simulated_network::resume(std::uint32_t process) {
  auto& it = core_->processes.at(process);
  it.paused = false;
  for (const auto& fn : std::exchange(it.deferred, {}))
    fn();
}

void simulated_network::restart(std::uint32_t process) {
  auto& it = core_->processes.at(process);
  it.disconnected = false;
  it.accept = {};
  it.admit = {};
  it.paused = false;
  it.deferred.clear();
  ++it.restarts;
}

bool simulated_network::is_disconnected(std::uint32_t process) const {
  return core_->processes.at(process).disconnected;
}

void simulated_network::clog(std::uint32_t process, double factor) {
  core_->processes.at(process).slowdown = factor;
}

const simulated_network::counts& simulated_network::sent() const {
  return core_->sent;
}

} // namespace troupe::simulation
