#include "troupe/actors/group/role_spawner.hpp"

#include "troupe/actors/control/chief.hpp"
#include "troupe/actors/protocol/type_ids.hpp"
#include "troupe/actors/remoting/proxy.hpp"
#include "troupe/actors/remoting/skeleton.hpp"
#include "troupe/actors/replica/reducer.hpp"
#include "troupe/actors/replica/replica.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>

namespace troupe {

namespace {

constexpr std::uint32_t reducer_count = 4;

class casting {
public:
  casting(const crew_place& place, const crew_options& options,
          const std::shared_ptr<work_desk>& desk,
          const std::shared_ptr<const step_book>& book)
    : place_{place},
      options_{options},
      desk_{desk},
      book_{book},
      here_{share_of(place, options)},
      by_{std::make_shared<direct_transport>(options.replicas, place.by_mail)} {
  }

  crew_cast done() && {
    if (here_.process == 0)
      lead();
    else
      serve();
    forget_logger();
    return std::move(cast_);
  }

private:
  outbox box(const party& who) const { return {who, by_, place_.faults}; }

  /// Registers a role with the transport, the completion queue and the list of
  /// roles. The chief and the local agent receive no tensor messages.
  template <class Handle>
  void add(const party& who, const Handle& handle) {
    const auto it = caf::actor_cast<caf::actor>(handle);
    const bool leads =
      who.what == party::role::chief || who.what == party::role::steward;
    if (!leads)
      by_->place(who, it);
    it->attach_functor([desk = desk_, leads] { desk->one_ended(leads); });
    cast_.roles.push_back(it.address());
    if (place_.on_spawn)
      place_.on_spawn(who, it);
  }

  void lead() {
    const auto owned =
      options_.reducing == crew_options::reducers::own ? reducer_count : 0;
    chief_options how{options_.replicas, options_.lease, options_.patience, {}};
    if (place_.with)
      how.where = place_.with->where;
    const party first{party::role::chief, 0};
    const auto it = place_.system.spawn(chief, how, box(first));
    cast_.front = it;
    add(first, it);
    cast_ref all;
    for (std::uint32_t i = 0; i < owned; ++i) {
      const party who{party::role::reducer, i};
      all.reducers.push_back(
        place_.system.spawn(reducer, i, options_.replicas, box(who), it));
      add(who, all.reducers.back());
    }
    add_replicas(it, owned);
    all.replicas = cast_.replicas;
    all.callers.push_back({desk_, {}});
    for (std::uint32_t p = 1; p < here_.processes; ++p)
      reach(p, all);
    caf::anon_send(it, std::move(all));
    for (std::uint32_t p = 1; p < here_.processes; ++p)
      open_gate<office_actor>(p, it, chief_channel);
  }

  void serve() {
    const auto& with = *place_.with;
    const party me{party::role::steward, with.me};
    const auto it = place_.system.spawn(
      steward,
      steward_options{.leader = with.where.names[0],
                      .process = with.me,
                      .first_replica = here_.first,
                      .listener = desk_,
                      .together = commit::at_once(options_.lease),
                      .lease = options_.lease},
      box(me));
    cast_.front = it;
    add(me, it);
    add_replicas(it, 0);
    // before a skeleton delivers messages that the agent has to answer
    caf::anon_send(it, household_ref{open_proxy<office_actor>(0, chief_channel),
                                     cast_.replicas});
    for (const auto& one : cast_.replicas)
      open_gate<replica_actor>(
        0, one, replica_channel + here_.first + std::uint32_t(opened_++));
    open_gate<caller_actor>(0, it, caller_channel);
    caf::anon_send(it, cast_.gates.back().address());
  }

  template <class Owner>
  void add_replicas(const Owner& owner, std::uint32_t reducers) {
    for (std::uint32_t i = 0; i < here_.count; ++i) {
      const auto id = here_.first + i;
      replica_wiring wiring{id, options_, 1, reducers, by_, place_.faults};
      wiring.steps = book_;
      if (place_.with)
        wiring.plane = place_.with->plane;
      cast_.replicas.push_back(
        spawn(place_.system, place_.on, replica, wiring, owner));
      add(replica_named(id), cast_.replicas.back());
    }
  }

  /// Opens the chief's proxies for the roles of another process.
  void reach(std::uint32_t process, cast_ref& all) {
    const auto& first = place_.with->where.first;
    for (auto r = first[process]; r < first[process + 1]; ++r)
      all.replicas.push_back(
        open_proxy<replica_actor>(process, replica_channel + r));
    all.callers.push_back(
      {nullptr, open_proxy<caller_actor>(process, caller_channel)});
  }

  std::shared_ptr<net::link> link(std::uint32_t process, std::uint32_t on) {
    return place_.with->wires.at(process)->open(on);
  }

  template <class Role>
  Role open_proxy(std::uint32_t process, std::uint32_t on) {
    proxy_options how;
    how.epoch = place_.with->epoch;
    // Each replica answers `configure` and a probe, and may fail; reports,
    // commits and grants are sent in batches.
    how.backlog = 256 + std::size_t{8} * options_.replicas;
    const Role it = place_.system.spawn(proxy<Role>, link(process, on), how);
    cast_.proxies.push_back(caf::actor_cast<caf::actor>(it));
    return it;
  }

  template <class Role, class Target>
  void open_gate(std::uint32_t process, const Target& of, std::uint32_t on) {
    gateway_options how;
    how.epoch = place_.with->epoch;
    cast_.gates.push_back(caf::actor_cast<caf::actor>(
      place_.system.spawn(gateway<Role>, Role{of}, link(process, on), how)));
  }

  const crew_place& place_;
  const crew_options& options_;
  std::shared_ptr<work_desk> desk_;
  std::shared_ptr<const step_book> book_;
  crew::share here_;
  std::shared_ptr<direct_transport> by_;
  std::size_t opened_ = 0;
  crew_cast cast_;
};

} // namespace

crew::share share_of(const crew_place& place, const crew_options& options) {
  if (!place.with)
    return {0, options.replicas, 0, 1};
  const auto& x = *place.with;
  const auto& first = x.where.first;
  return {first[x.me], first[x.me + 1] - first[x.me], x.me, x.processes()};
}

crew_cast cast_crew(const crew_place& place, const crew_options& options,
                    const std::shared_ptr<work_desk>& desk,
                    const std::shared_ptr<const step_book>& book) {
  return casting{place, options, desk, book}.done();
}

} // namespace troupe
