#include "troupe/actors/membership/actor/spawn_membership.hpp"

#include "troupe/actors/core/spawn.hpp"
#include "troupe/actors/membership/actor/membership_host.hpp"

#include <optional>

namespace troupe {

namespace {

struct membership_state {
  static inline const char* name = "membership";
  std::optional<membership_host> host;
};

membership_internal_actor::behavior_type membership_role(
  membership_internal_actor::stateful_pointer<membership_state> self,
  const membership_options& options) {
  auto& host = self->state.host.emplace(self, options);
  using namespace membership_event;
  return {
    [&host](const accepted& x) { host.role().on(x); },
    [&host](const candidate_accepted& x) { host.admission().on(x); },
    [&host](const accepted_again& x) { host.losses().on(x); },
    [&host](const lanes_open& x) { host.role().on(x); },
    [&host](const aborted& x) { host.role().abort(x.code, x.reason); },
    [&host](const ask_to_join&) {
      if (auto* const candidate = host.candidate())
        candidate->ask();
    },
    [&host](const request_results& x) { host.results().on(x); },
    [&host](const replicas_stopped& x) { host.members().on(x); },
    [&host](const renewal_wanted& x) { host.members().on(x); },
    [&host](const no_lanes& x) { host.members().on(x); },
    [&host](const leaving& x) { host.members().on(x); },
    [&host](const leave& x) { host.leave(x.job_goes_on); },
    [&host](const received& x) { host.on(x); },
    [&host](const closed& x) { host.on(x); },
    [&host](const dialed& x) { host.role().on(x); },
    [&host](const candidate_dialed& x) { host.admission().on(x); },
    [&host](const dialed_again& x) { host.losses().on(x); },
    [&host](const peer_lost& x) { host.role().on_peer_lost(x); },
    [&host](const end_check& x) { host.losses().on(x); },
    [&host](const dial_again& x) { host.losses().on(x); },
    [&host](const not_reconnected& x) { host.losses().on(x); },
    [&host](const stop_overdue& x) { host.members().on(x); },
    [&host](const undecided& x) { host.members().on(x); },
    [&host](const survivors_asked& x) { host.members().on(x); },
    [&host](const packet_reports_due& x) { host.on(x); },
    [&host](const connections_overdue&) {
      if (auto* const candidate = host.candidate())
        candidate->on_connections_overdue();
    },
    [&host](atom::watchdog, std::uint64_t number) {
      host.role().on_watchdog(number);
    },
    [&host](atom::wake, std::uint64_t number) {
      host.members().on_timeout(number);
    },
    [&host](atom::next, std::uint32_t task) { host.role().dial(task); },
    [&host](atom::next) {
      if (auto* const candidate = host.candidate())
        candidate->repeat_ask();
    },
    [&host](atom::missing) { host.role().log_delay(); },
  };
}

} // namespace

membership_actor spawn_membership(caf::actor_system& system,
                                  const membership_options& options) {
  const auto out = system.spawn(membership_role, options);
  release_caf_logger();
  return out;
}

} // namespace troupe
