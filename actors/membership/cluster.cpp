#include "troupe/actors/membership/cluster.hpp"

#include "troupe/actors/group/actor_group.hpp"
#include "troupe/actors/group/group_environment.hpp"
#include "troupe/actors/membership/cluster_impl.hpp"
#include "troupe/actors/protocol/group_options.hpp"
#include "troupe/actors/runtime/runtime.hpp"

#include <caf/exit_reason.hpp>
#include <caf/send.hpp>

#include <algorithm>
#include <random>
#include <stdexcept>
#include <thread>

namespace troupe {

using namespace std::chrono_literals;

// -- interface ----------------------------------------------------------------

cluster::cluster(runtime& in, cluster_options options)
  : inside_{std::make_unique<inside>(in, std::move(options))} {
  inside_->join();
}

cluster::~cluster() {
  leave();
}

void cluster::leave() noexcept {
  inside_->leave();
}

std::uint32_t cluster::index() const {
  return inside_->options.index;
}

std::uint32_t cluster::processes() const {
  return inside_->processes();
}

std::uint32_t cluster::replicas() const {
  return processes() * inside_->options.replicas;
}

const std::string& cluster::name(std::uint32_t task) const {
  return inside_->options.names.at(task);
}

std::string cluster::transport_to(std::uint32_t task) const {
  return inside_->transports.at(task);
}

// -- implementation -----------------------------------------------------------

cluster::inside::inside(runtime& in, cluster_options&& x)
  : on{in}, options{std::move(x)} {
  if (options.names.empty())
    for (std::size_t i = 0; i < options.addresses.size(); ++i)
      options.names.push_back("worker " + std::to_string(i));
  check();
  hall_ = std::make_shared<hall>(options.names.size());
  lanes.resize(options.names.size());
  transports.assign(options.names.size(), "none");
  std::random_device dice;
  incarnation_ = std::uint64_t{dice()} << 32 | dice();
}

cluster::inside::~inside() {
  served_.clear();
  if (reporter_)
    caf::anon_send_exit(reporter_, caf::exit_reason::user_shutdown);
}

void cluster::inside::check() const {
  const auto refuse = [](const std::string& why) {
    throw std::invalid_argument("a cluster: " + why);
  };
  if (options.addresses.empty())
    refuse("addresses is empty; give one address for each process");
  if (options.names.size() != options.addresses.size())
    refuse(std::to_string(options.names.size()) + " names for "
           + std::to_string(options.addresses.size())
           + " addresses; give one name and one address for each process");
  if (options.index >= options.addresses.size())
    refuse("task " + std::to_string(options.index) + " is not one of its "
           + std::to_string(options.addresses.size())
           + " tasks, which are numbered from 0");
  if (options.replicas < 1
      || options.replicas * options.addresses.size() > most_replicas)
    refuse(std::to_string(options.replicas)
           + " replicas in each process; give at least 1, in all processes "
             "together at most "
           + std::to_string(most_replicas));
  if (options.patience <= 0ms || options.farewell <= 0ms)
    refuse("start_timeout and shutdown_timeout must be 1 ms or more");
  const bool tls = options.at ? options.at->endpoint().speaks_tls()
                              : options.credentials.tls != nullptr;
  if (options.transport == transport_kind::tls && !tls)
    refuse("transport tls needs certificates; give credentials.tls");
}

/// If the caller does not set the spin timeout, the lanes spin only if each
/// replica on this host can have a core of its own.
std::shared_ptr<const company>
cluster::inside::make_company(const crew_options& x) {
  if (std::exchange(crewed_, true))
    throw std::logic_error("a cluster makes one replica group only");
  auto out = std::make_shared<company>();
  out->where.names = options.names;
  for (std::uint32_t p = 0; p <= processes(); ++p)
    out->where.first.push_back(p * options.replicas);
  out->me = options.index;
  out->epoch = table_.epoch;
  out->wires.resize(processes());
  std::uint32_t near = options.replicas; // on this host
  for (std::uint32_t p = 0; p < processes(); ++p) {
    out->wires[p] = hall_->seats[p].wire;
    near += p != options.index && on_this_host(p) ? options.replicas : 0;
  }
  data_plane_options how;
  const auto cores = std::max(std::thread::hardware_concurrency(), 1u);
  how.polling = x.polling >= 0us ? x.polling : near <= cores ? 2000us : 0us;
  how.names = options.names;
  how.faults = options.faults;
  out->plane = std::make_shared<data_plane>(
    exchange::layout{out->where.first, options.index}, std::move(lanes), how);
  return out;
}

bool cluster::inside::on_this_host(std::uint32_t peer) const {
  return transports[peer] == "shm"
         || table_.members[peer].host == table_.members[options.index].host;
}

void cluster::inside::leave() noexcept {
  if (!std::exchange(joined_, false))
    return;
  const auto till = hall::clock::now() + options.farewell;
  std::unique_lock hold{hall_->lock};
  for (auto& x : hall_->seats)
    if (x.line && !x.left)
      hall_->say(x, {options.index == 0 ? word::over : word::leave, {}, {}});
  hall_->wait(hold, till, [this] {
    return std::ranges::all_of(hall_->seats, [](const hall::seat& x) {
      return !x.line || x.left || x.end;
    });
  });
  std::vector<std::shared_ptr<net::connection>> wires;
  for (auto& x : hall_->seats)
    if (x.wire)
      wires.push_back(std::move(x.wire));
  hold.unlock();
  for (const auto& x : wires)
    x->close(me() + " has left");
  served_.clear();
}

// -- replica groups -----------------------------------------------------------

std::unique_ptr<crew> make_crew(cluster& in, const crew_options& options) {
  auto& it = in.in();
  auto here = options;
  here.replicas = in.replicas();
  here.threads = it.options.threads;
  if (in.processes() == 1)
    return make_crew(it.on, here);
  check(here);
  crew_place place{it.on.system()};
  place.with = it.make_company(here);
  if (it.reporter())
    place.on_spawn = [to = it.reporter()](const party& who,
                                          const caf::actor& x) {
      if (who.what == party::role::chief)
        caf::anon_send(to, x.address());
    };
  place.faults = it.options.faults;
  return make_crew(place, here);
}

} // namespace troupe
