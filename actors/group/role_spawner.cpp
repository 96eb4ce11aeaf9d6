#include "troupe/actors/group/role_spawner.hpp"

#include "troupe/actors/collectives/lane_replica_backend.hpp"
#include "troupe/actors/collectives/local_backend.hpp"
#include "troupe/actors/collectives/nccl/device_sum_backend.hpp"
#include "troupe/actors/collectives/nccl/nccl_ranks.hpp"
#include "troupe/actors/control/chief.hpp"
#include "troupe/actors/remoting/proxy.hpp"
#include "troupe/actors/remoting/skeleton.hpp"
#include "troupe/actors/replica/reducer.hpp"
#include "troupe/actors/replica/replica.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

namespace troupe {

namespace {

constexpr std::uint32_t reducer_count = 4;

class role_spawner {
public:
  role_spawner(const group_environment& environment,
               const replica_group_options& options,
               const std::shared_ptr<completion_queue>& completions,
               const std::shared_ptr<const step_registry>& registry)
    : environment_{environment},
      options_{options},
      completions_{completions},
      registry_{registry},
      placement_{placement_of(environment, options)},
      transport_{environment.job_world
                   ? nullptr
                   : std::make_shared<local_transport>(
                     options.replicas, environment.via_mailbox)} {}

  spawned_roles spawn_all() && {
    if (placement_.process == 0)
      spawn_chief_side();
    else
      spawn_agent_side();
    release_caf_logger();
    return std::move(spawned_);
  }

private:
  message_sender sender_for(const role_id& role) const {
    return {role, transport_, environment_.faults};
  }

  /// Registers a role with the completion queue, the list of roles and the
  /// transport. The transport does not know the chief and the local agent,
  /// which receive no tensor messages.
  template <class Handle>
  void add_role(const role_id& id, const Handle& handle) {
    const auto role = caf::actor_cast<caf::actor>(handle);
    const bool is_owner =
      id.role == role_id::kind::chief || id.role == role_id::kind::local_agent;
    if (!is_owner && transport_)
      transport_->register_role(id, role);
    role->attach_functor([completions = completions_, is_owner] {
      completions->on_role_terminated(is_owner);
    });
    spawned_.roles.push_back(role.address());
    if (environment_.on_spawn)
      environment_.on_spawn(id, role);
  }

  void spawn_chief_side() {
    const auto reducer_actors =
      options_.reducers == replica_group_options::reducer_kind::reducer_actors
        ? reducer_count
        : 0;
    const chief_options chief_settings{
      completions_->processes(), options_.step_window, options_.step_timeout,
      options_.recorder};
    const role_id chief_id{role_id::kind::chief, 0};
    const auto chief_handle =
      environment_.system.spawn(chief, chief_settings, sender_for(chief_id));
    spawned_.run_service = chief_handle;
    add_role(chief_id, chief_handle);
    job_roles roles;
    for (std::uint32_t i = 0; i < reducer_actors; ++i) {
      const role_id id{role_id::kind::reducer, i};
      roles.reducers.push_back(environment_.system.spawn(
        reducer, i, options_.replicas, sender_for(id), chief_handle));
      add_role(id, roles.reducers.back());
    }
    add_replicas(chief_handle, reducer_actors);
    roles.replicas.resize(placement_.job.replicas());
    for (std::size_t i = 0; i < spawned_.replicas.size(); ++i)
      roles.replicas[placement_.replicas()[i]] = spawned_.replicas[i];
    roles.clients.push_back({completions_, {}});
    for (std::uint32_t p = 1; p < placement_.job.processes(); ++p)
      open_proxies(p, roles);
    caf::anon_send(chief_handle, std::move(roles));
    for (std::uint32_t p = 1; p < placement_.job.processes(); ++p)
      open_skeleton<chief_remote_actor>(p, chief_handle, chief_channel);
  }

  void spawn_agent_side() {
    const role_id agent_id{role_id::kind::local_agent, placement_.process};
    const auto agent = environment_.system.spawn(
      local_agent,
      local_agent_options{.placement = placement_,
                          .listener = completions_,
                          .report_batch =
                            step_commit::grant_batch(options_.step_window),
                          .step_window = options_.step_window,
                          .recorder = options_.recorder},
      sender_for(agent_id));
    spawned_.run_service = agent;
    add_role(agent_id, agent);
    add_replicas(agent, 0);
    // set the roles before a skeleton delivers messages that the agent must
    // answer
    caf::anon_send(agent, local_roles{open_proxy<chief_remote_actor>(
                                        0, chief_channel, "the chief"),
                                      spawned_.replicas});
    for (std::size_t i = 0; i < spawned_.replicas.size(); ++i)
      open_skeleton<replica_actor>(0, spawned_.replicas[i],
                                   replica_channel + placement_.replicas()[i]);
    open_skeleton<run_client_actor>(0, agent, run_client_channel);
    caf::anon_send(agent, spawned_.skeletons.back().address());
  }

  template <class Owner>
  void add_replicas(const Owner& owner, std::uint32_t reducers) {
    for (const auto id : placement_.replicas()) {
      replica_config config{.id = id,
                            .options = options_,
                            .faults = environment_.faults,
                            .backend = make_backend(id, reducers),
                            .registry = registry_};
      spawned_.replicas.push_back(spawn(environment_.system,
                                        environment_.replica_spawn_policy,
                                        replica, config, owner));
      add_role(replica_id(id), spawned_.replicas.back());
    }
  }

  /// Makes the backend of a replica of this process.
  std::shared_ptr<collective_backend> make_backend(std::uint32_t replica,
                                                   std::uint32_t reducers) {
    auto host = make_host_backend(replica, reducers);
    const auto& ranks = environment_.job_world ? environment_.job_world->ranks
                                               : environment_.ranks;
    if (!ranks)
      return host;
    return std::make_shared<device_sum_backend>(
      std::move(host), ranks->of_replica(replica), replica);
  }

  /// Makes the backend for tensors on the host.
  std::shared_ptr<collective_backend>
  make_host_backend(std::uint32_t replica, std::uint32_t reducers) {
    if (environment_.job_world)
      return std::make_shared<lane_replica_backend>(
        environment_.job_world->backend, replica);
    return std::make_shared<local_backend>(
      local_backend_options{.replica = replica,
                            .replicas = options_.replicas,
                            .reducers = reducers,
                            .spin_timeout = options_.spin_timeout},
      transport_, environment_.faults);
  }

  /// Opens the chief's proxies for the roles of another process and adds them
  /// to `roles`.
  void open_proxies(std::uint32_t process, job_roles& roles) {
    for (const auto r : placement_.job.replicas_of(process))
      roles.replicas[r] = open_proxy<replica_actor>(
        process, replica_channel + r, "replica " + std::to_string(r));
    roles.clients.push_back(
      {nullptr, open_proxy<run_client_actor>(process, run_client_channel,
                                             "the local agent")});
  }

  std::shared_ptr<net::channel> open_channel(std::uint32_t process,
                                             std::uint32_t channel) {
    const auto& job = *environment_.job_world;
    return job.connections.at(process)->open(
      channel_of_view(job.view_id, channel));
  }

  template <class Role>
  Role open_proxy(std::uint32_t process, std::uint32_t channel,
                  const std::string& role_name) {
    proxy_options options;
    options.target =
      role_name + " of " + environment_.job_world->names.at(process);
    options.view_id = environment_.job_world->view_id;
    // The backlog must hold all messages that can wait for the channel at the
    // same time. These are a few messages of each replica, such as an
    // acknowledgement of `configure`, a wait report and a failure: 8 suffice.
    // Another 256 places leave room for the batches of reports, commits and
    // grants.
    options.backlog = 256 + std::size_t{8} * options_.replicas;
    const auto role = spawn_proxy<Role>(
      environment_.system, open_channel(process, channel), options);
    spawned_.proxies.push_back(caf::actor_cast<caf::actor>(role));
    return role;
  }

  template <class Role, class Target>
  void open_skeleton(std::uint32_t process, const Target& target,
                     std::uint32_t channel) {
    skeleton_options options;
    options.view_id = environment_.job_world->view_id;
    spawned_.skeletons.push_back(caf::actor_cast<caf::actor>(
      spawn_skeleton(environment_.system, Role{target},
                     open_channel(process, channel), options)));
  }

  const group_environment& environment_;
  const replica_group_options& options_;
  std::shared_ptr<completion_queue> completions_;
  std::shared_ptr<const step_registry> registry_;
  local_placement placement_;
  /// Null: the replicas use lanes.
  std::shared_ptr<local_transport> transport_;
  spawned_roles spawned_;
};

} // namespace

local_placement placement_of(const group_environment& environment,
                             const replica_group_options& options) {
  return environment.job_world ? environment.job_world->placement
                               : local_placement{placement{options.replicas}};
}

spawned_roles
spawn_roles(const group_environment& environment,
            const replica_group_options& options,
            const std::shared_ptr<completion_queue>& completions,
            const std::shared_ptr<const step_registry>& registry) {
  return role_spawner{environment, options, completions, registry}.spawn_all();
}

} // namespace troupe
