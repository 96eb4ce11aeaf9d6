#include "troupe/actors/group/chief_status_source.hpp"

#include "troupe/actors/core/spawn.hpp"
#include "troupe/actors/protocol/status_actor.hpp"

#include <caf/actor_cast.hpp>
#include <caf/scoped_actor.hpp>

#include <optional>

namespace troupe {

chief_status_source::chief_status_source(caf::actor_system& system,
                                         caf::actor_addr run_service,
                                         named_processes processes)
  : system_{system},
    run_service_{std::move(run_service)},
    processes_{std::move(processes)} {}

job_status chief_status_source::status(std::chrono::milliseconds timeout) {
  std::optional<job_status> answer;
  if (const auto service = caf::actor_cast<caf::actor>(run_service_)) {
    caf::scoped_actor self{system_};
    self
      ->request(caf::actor_cast<status_actor>(service), timeout, atom::status_v)
      .receive([&](job_status& x) { answer = std::move(x); },
               [](const caf::error&) {});
  }
  release_caf_logger();
  return answer ? std::move(*answer)
                : status_without_chief(processes_, timeout);
}

job_status status_without_chief(const named_processes& processes,
                                std::chrono::milliseconds timeout) {
  const auto waited = static_cast<std::uint64_t>(timeout.count());
  const failure_report silent{.kind = failure_kind::chief_silent,
                              .code = ec::stalled,
                              .processes = {0},
                              .timeout_ms = waited};
  job_status out;
  out.stall_reason = describe(silent, processes);
  out.missing = missing_roles(silent, processes, waited);
  for (auto& x : out.missing)
    x.responds = false;
  return out;
}

} // namespace troupe
