#include "troupe/actors/membership/cluster.hpp"

#include "troupe/actors/core/spawn.hpp"
#include "troupe/actors/group/actor_group.hpp"
#include "troupe/actors/group/group_environment.hpp"
#include "troupe/actors/membership/cluster_impl.hpp"
#include "troupe/actors/membership/elastic_group/elastic_group.hpp"
#include "troupe/actors/membership/job_overview.hpp"
#include "troupe/actors/protocol/group_options.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/net/base/notification.hpp"
#include "troupe/net/io/socket_address.hpp"

#include <caf/actor_cast.hpp>
#include <caf/exit_reason.hpp>
#include <caf/send.hpp>

#include <algorithm>
#include <random>
#include <stdexcept>
#include <thread>

namespace troupe {

using namespace std::chrono_literals;

namespace {

/// Maximum time in which the processes of a later view open their lanes. All of
/// them have stopped for the view, so they begin at once.
constexpr auto later_lane_timeout = 10s;

} // namespace

// -- interface ----------------------------------------------------------------

cluster::cluster(runtime& local_runtime, cluster_options options)
  : impl_{std::make_unique<impl>(local_runtime, std::move(options))} {
  impl_->join();
}

cluster::~cluster() {
  leave();
}

void cluster::leave() noexcept {
  impl_->leave();
}

std::uint32_t cluster::task() const {
  return impl_->options.task;
}

std::uint32_t cluster::processes() const {
  return impl_->processes();
}

std::uint32_t cluster::replicas() const {
  return impl_->job_placement().replicas();
}

membership::view cluster::current_view() const {
  return impl_->current_view();
}

const std::string& cluster::name(std::uint32_t task) const {
  return impl_->options.names.at(task);
}

bool cluster::uses_nccl() const {
  return impl_->uses_nccl;
}

void cluster::add_to(job_status& status) const {
  add_overview(impl_->overview(), status);
}

std::string cluster::transport_to(std::uint32_t task) const {
  return impl_->transports.at(task);
}

// -- implementation -----------------------------------------------------------

cluster::impl::impl(runtime& local_runtime, cluster_options&& initial_options)
  : local_runtime{local_runtime}, options{std::move(initial_options)} {
  if (options.names.empty())
    for (std::size_t i = 0; i < options.addresses.size(); ++i)
      options.names.push_back("worker " + std::to_string(i));
  check();
  transports.assign(options.names.size(), "none");
  make_peer_table();
  if (options.recorder && !options.any_task)
    options.recorder->set_identity(
      {options.job, options.names, options.task, incarnation_, 0});
}

/// Makes an empty table and draws an incarnation for an attempt to join.
void cluster::impl::make_peer_table() {
  peers_ = std::make_shared<peer_table>(options.names.size());
  peers_->recorder = options.recorder;
  std::random_device dice;
  incarnation_ = std::uint64_t{dice()} << 32 | dice();
}

cluster::impl::~impl() {
  registrations_.clear();
  if (status_service_)
    caf::anon_send_exit(status_service_, caf::exit_reason::user_shutdown);
  if (membership_)
    end_membership();
}

/// Waits until the membership actor has ended, because it uses the log.
void cluster::impl::end_membership() {
  const auto ended = std::make_shared<net::notification>();
  const auto actor =
    caf::actor_cast<caf::actor>(std::exchange(membership_, nullptr));
  actor->attach_functor([ended] { ended->notify(); });
  caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  ended->wait_for(5s);
  release_caf_logger();
}

void cluster::impl::check() const {
  const auto refuse = [](const std::string& why) {
    throw std::invalid_argument("a cluster: " + why);
  };
  if (options.addresses.empty())
    refuse("addresses is empty; give one address for each process");
  if (options.names.size() != options.addresses.size())
    refuse(std::to_string(options.names.size()) + " names for "
           + std::to_string(options.addresses.size())
           + " addresses; give one name and one address for each process");
  if (options.task >= options.addresses.size())
    refuse("task " + std::to_string(options.task) + " is not one of its "
           + std::to_string(options.addresses.size())
           + " tasks, which are numbered from 0");
  if (options.replicas > max_replicas)
    refuse(std::to_string(options.replicas) + " replicas; give at most "
           + std::to_string(max_replicas) + " in all processes together");
  if (options.join_running_job
      && (options.addresses.size() == 1 || options.replicas < 1))
    refuse("join_running_job needs other processes and at least 1 replica");
  if (options.spare_timeout > 0ms && !options.join_running_job)
    refuse("spare_timeout needs join_running_job");
  if (options.any_task)
    check_spare(refuse);
  if (options.replicas < 1 && options.addresses.size() == 1)
    refuse("0 replicas in the only process; give at least 1");
  if (options.start_timeout <= 0ms || options.shutdown_timeout <= 0ms)
    refuse("start_timeout and shutdown_timeout must be 1 ms or more");
  const bool tls = options.router
                     ? options.router->endpoint().uses_tls()
                     : credentials_of(options.connection).tls != nullptr;
  if (options.transport == transport_kind::tls && !tls)
    refuse(
      "transport tls needs certificates; give connection.credentials with tls");
}

/// Checks the options of a spare for any task, whose address is not one of the
/// cluster.
void cluster::impl::check_spare(
  const std::function<void(const std::string&)>& refuse) const {
  if (!options.join_running_job || options.spare_timeout <= 0ms)
    refuse("any_task needs join_running_job and a spare_timeout of 1 ms or "
           "more");
  if (options.router)
    return;
  if (options.listen) {
    if (options.listen->host == "0.0.0.0" || options.listen->host == "::")
      refuse("listen is " + net::to_string(*options.listen)
             + ", which the other workers cannot connect to; give the address "
               "of this host at which they reach it");
    return;
  }
  const auto is_loopback = [](const net::address& x) {
    const auto found = net::resolve(x).found; // empty: the name is unknown
    return !found.empty()
           && std::ranges::all_of(found, &net::socket_address::is_loopback);
  };
  const auto other = std::ranges::find_if_not(options.addresses, is_loopback);
  if (other != options.addresses.end())
    refuse("a spare for any task of a cluster with the address "
           + net::to_string(*other)
           + " needs an address of its own; give listen (--listen HOST:PORT), "
             "with the host at which the other workers reach this one");
}

std::unique_ptr<replica_group>
cluster::impl::make_elastic_group(const replica_group_options& group_options) {
  if (std::exchange(has_group_, true))
    throw std::logic_error("a cluster makes one replica group only");
  return troupe::make_elastic_group(
    {.peers = peers_,
     .make_group =
       [this, group_options](const membership::view& of) {
         return make_group(group_options, of);
       },
     .on_stopped =
       [actor = membership_] {
         caf::anon_send(actor, membership_event::replicas_stopped{});
       },
     .on_ask =
       [actor = membership_] {
         caf::anon_send(actor, membership_event::ask_to_join{});
       },
     .request_results =
       [actor = membership_](std::uint64_t call) {
         caf::anon_send(actor, membership_event::request_results{call});
       },
     .on_leaving =
       [actor = membership_](std::uint64_t view_id,
                             const std::vector<std::uint64_t>& incarnations) {
         caf::anon_send(actor,
                        membership_event::leaving{view_id, incarnations});
       },
     .on_renewal_wanted =
       [actor = membership_](std::uint64_t view_id) {
         caf::anon_send(actor, membership_event::renewal_wanted{view_id});
       },
     .on_no_lanes =
       [actor = membership_](std::uint64_t view_id, std::uint64_t incarnation,
                             bool is_newer) {
         caf::anon_send(
           actor, membership_event::no_lanes{view_id, incarnation, is_newer});
       },
     .on_giving_up =
       [actor = membership_] {
         caf::anon_send(actor, membership_event::leave{true});
       },
     .joins = options.join_running_job,
     .task = options.task,
     .name = own_name(),
     .timeout = std::max<std::chrono::milliseconds>(group_options.step_timeout,
                                                    options.start_timeout)},
    view_);
}

/// Makes the group of a view. The processes of the view have numbers of their
/// own, in the order of their tasks; process 0 has the chief.
std::unique_ptr<replica_group>
cluster::impl::make_group(const replica_group_options& group_options,
                          const membership::view& of) {
  const bool is_first =
    of.view_id == view_.view_id && !options.join_running_job;
  const auto deadline =
    peer_table::clock::now()
    + (is_first ? options.start_timeout
                : std::min<std::chrono::milliseconds>(options.start_timeout,
                                                      later_lane_timeout));
  auto job = make_world(
    group_options, of, is_first ? std::move(lanes_) : open_lanes(of, deadline));
  connect_devices(*job, group_options, deadline);
  group_environment environment{local_runtime.system()};
  environment.job_world = std::move(job);
  if (status_service_)
    environment.on_spawn = [status_service = status_service_](
                             const role_id& role, const caf::actor& handle) {
      if (role.role == role_id::kind::chief
          || role.role == role_id::kind::local_agent)
        caf::anon_send(status_service, handle.address());
    };
  environment.faults = options.faults;
  return make_replica_group(environment, group_options);
}

/// If the caller does not set the spin timeout, it depends on whether this host
/// has a core for each of its replicas.
std::shared_ptr<world>
cluster::impl::make_world(const replica_group_options& group_options,
                          const membership::view& of,
                          std::vector<peer_lanes> lanes) const {
  auto out = std::make_shared<world>();
  out->placement.job = placement_of(of);
  out->view_id = of.view_id;
  lane_backend_options backend_options;
  std::size_t near = 0; // replicas on this host
  const std::lock_guard hold{peers_->lock};
  for (const auto& one : of.members) {
    if (one.task == options.task)
      out->placement.process = static_cast<std::uint32_t>(out->names.size());
    if (one.task == options.task || is_same_host(one))
      near += one.replicas.size();
    out->names.push_back(options.names[one.task]);
    out->connections.push_back(peers_->entries[one.task].connection);
    backend_options.counts.push_back(
      one.task == options.task ? nullptr
                               : peers_->counts_of(of.view_id, one.task));
  }
  const auto cores = std::max(std::thread::hardware_concurrency(), 1u);
  backend_options.shares_cores = near > cores;
  backend_options.spin_timeout = group_options.spin_timeout >= 0us
                                   ? group_options.spin_timeout
                                 : backend_options.shares_cores ? 200us
                                                                : 2000us;
  backend_options.faults = options.faults;
  backend_options.loss_timeout = options.connection.heartbeat_timeout;
  if (out->placement.count() > 0)
    out->backend = std::make_shared<lane_backend>(
      out->placement, std::move(lanes), backend_options);
  return out;
}

placement cluster::impl::placement_of(const membership::view& of) {
  std::vector<placement::id_list> ids;
  for (const auto& x : of.members)
    ids.push_back(x.replicas);
  return placement{std::move(ids)};
}

membership::view cluster::impl::current_view() const {
  const std::lock_guard hold{peers_->lock};
  return peers_->view;
}

bool cluster::impl::is_same_host(const membership::member& peer) const {
  return transports[peer.task] == "shm"
         || router_->endpoint().advertised_address().host == peer.host;
}

void cluster::impl::leave() noexcept {
  if (!std::exchange(joined_, false))
    return;
  std::unique_lock hold{peers_->lock};
  if (membership_)
    caf::anon_send(membership_, membership_event::leave{});
  else
    peers_->may_close = true; // the start failed before
  peers_->wait(hold, peer_table::clock::now() + options.shutdown_timeout,
               [this] { return peers_->may_close; });
  std::vector<std::shared_ptr<net::connection>> connections;
  for (auto& peer : peers_->entries)
    if (peer.connection)
      connections.push_back(std::move(peer.connection));
  hold.unlock();
  for (const auto& peer : connections)
    peer->close(own_name() + " has left");
  registrations_.clear();
}

// -- replica groups -----------------------------------------------------------

std::unique_ptr<replica_group>
make_replica_group(cluster& job_cluster, const replica_group_options& options) {
  auto& impl = job_cluster.implementation();
  auto group_options = options;
  group_options.replicas = job_cluster.replicas();
  group_options.threads = impl.options.threads;
  group_options.recorder = impl.options.recorder;
  if (job_cluster.processes() == 1)
    return make_replica_group(impl.local_runtime, group_options);
  check(group_options);
  return impl.make_elastic_group(group_options);
}

} // namespace troupe
