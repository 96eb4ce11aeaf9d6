#include "troupe/actors/protocol/atoms.hpp"
#include "troupe/simulation/simulated_network_core.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace troupe::simulation {

namespace {

/// Runs the network's scheduled calls when the simulator's clock reaches them.
caf::behavior alarm(caf::event_based_actor*, std::weak_ptr<network_core> of) {
  return {[of](atom::wake) {
    if (const auto it = of.lock())
      it->run_due();
  }};
}

void check(const network& x) {
  const auto refuse = [](const std::string& what, const std::string& why) {
    throw std::invalid_argument("a network with " + what + ": " + why);
  };
  if (x.latency.count() < 0 || x.jitter.count() < 0)
    refuse("a negative latency or jitter", "give 0 ns or more");
  if (!(x.bandwidth >= 0) || std::isinf(x.bandwidth))
    refuse("bandwidth " + std::to_string(x.bandwidth),
           "give bytes per second, or 0 for no limit");
  if (x.parcels < 1)
    refuse("a lane capacity of 0 packets", "give 1 or more");
  if (x.suspect <= std::chrono::milliseconds{0})
    refuse("heartbeat_timeout " + std::to_string(x.suspect.count()) + " ms",
           "give 1 ms or more");
}

} // namespace

// -- time ---------------------------------------------------------------------

network_core::core(sim& in, std::uint32_t all, const network& x)
  : how{x}, processes(all), in_{in}, rng_{in.draw()} {}

void network_core::open() {
  alarm_ = in_.spawn(alarm, weak_from_this());
}

void network_core::at(time due, std::function<void()> fn) {
  events_.emplace(due, std::move(fn));
  caf::delayed_anon_send(alarm_, std::max(due - now(), time{0}), atom::wake_v);
}

void network_core::run_due() {
  while (!events_.empty() && events_.begin()->first <= now()) {
    const auto fn = std::move(events_.begin()->second);
    events_.erase(events_.begin());
    fn();
  }
}

namespace {

network_core::time times(network_core::time x, double factor) {
  const auto ns = static_cast<double>(x.count()) * factor;
  return network_core::time{static_cast<std::int64_t>(std::min(ns, 1e18))};
}

} // namespace

network_core::time network_core::moment(std::uint32_t from, std::uint32_t to) {
  auto out = how.latency;
  if (how.jitter.count() > 0)
    out += time{static_cast<std::int64_t>(
      rng_() % (static_cast<std::uint64_t>(how.jitter.count()) + 1))};
  return times(out, std::max(processes[from].slower, processes[to].slower));
}

network_core::trip network_core::send(road& on, std::size_t bytes) {
  auto& from = processes[on.from];
  const auto begin = std::max(now(), from.free);
  if (how.bandwidth > 0)
    from.free = begin
                + times(std::chrono::seconds{1},
                        static_cast<double>(bytes) / how.bandwidth
                          * std::max(from.slower, processes[on.to].slower));
  else
    from.free = begin;
  const auto moving = moment(on.from, on.to);
  trip out;
  out.first = std::max(on.last, begin + moving);
  out.last = std::max(out.first, from.free + moving);
  on.last = out.last;
  ++sent.messages;
  sent.bytes += bytes;
  if (out.last < from.comes)
    ++sent.overtakings;
  from.comes = std::max(from.comes, out.last);
  return out;
}

void network_core::news_of(std::uint32_t process) const {
  if (const auto& fn = processes[process].news)
    fn();
}

// -- interface ----------------------------------------------------------------

simulated_network::simulated_network(sim& in, std::uint32_t all,
                                     const network& how) {
  check(how);
  core_ = std::make_shared<core>(in, all, how);
  core_->open();
  for (std::uint32_t p = 0; p < all; ++p)
    for (std::uint32_t q = p + 1; q < all; ++q)
      core_->cables[{p, q}] = {make_wire(core_, {p, q}),
                               make_lane(core_, {p, q}),
                               make_lane(core_, {p, q})};
}

simulated_network::~simulated_network() = default;

std::shared_ptr<net::connection>
simulated_network::connection(std::uint32_t at, std::uint32_t to) {
  return end_of_wire(core_->cables.at(std::minmax(at, to))[0], at > to);
}

peer_lanes simulated_network::lanes(std::uint32_t at, std::uint32_t to) {
  const auto& all = core_->cables.at(std::minmax(at, to));
  return {end_of_lane(all[1], at > to), end_of_lane(all[2], at > to)};
}

void simulated_network::on_news(std::uint32_t process,
                                std::function<void()> fn) {
  core_->processes.at(process).news = std::move(fn);
}

void simulated_network::wake_later(std::uint32_t process,
                                   std::chrono::nanoseconds delay) {
  core_->at(core_->now() + delay,
            [it = core_.get(), process] { it->news_of(process); });
}

void simulated_network::cut(std::uint32_t process, net::ending how) {
  if (std::exchange(core_->processes.at(process).cut, true))
    return;
  for (const auto& [between, all] : core_->cables)
    if (between.first == process || between.second == process)
      for (const auto& x : all)
        x->cut(how);
}

bool simulated_network::is_cut(std::uint32_t process) const {
  return core_->processes.at(process).cut;
}

void simulated_network::slow(std::uint32_t process, double factor) {
  core_->processes.at(process).slower = factor;
}

const simulated_network::counts& simulated_network::sent() const {
  return core_->sent;
}

} // namespace troupe::simulation
