#include "troupe/strategies/collective/missing_inputs.hpp"

#include <algorithm>

namespace troupe::collective {

namespace {

/// Finds a peer that has not accepted all packets of a step.
std::optional<missing_inputs>
find_undelivered(std::uint64_t step, const local_placement& placed,
                 const operation_log& log, const queue_positions& positions) {
  for (std::uint32_t p = 0; p < placed.job.processes(); ++p)
    for (const auto lane : {lane_id::contributions, lane_id::results}) {
      const auto number = positions.sent(p, lane).operation_number;
      if (p != placed.process && number < log.started()
          && log[number].step == step)
        return missing_inputs{
          false, log[number].bucket, {p}, placed.job.replicas_of(p)};
    }
  return std::nullopt;
}

} // namespace

std::optional<missing_inputs> find_missing(std::uint64_t step,
                                           const local_placement& placed,
                                           const operation_log& log,
                                           const packet_order& order,
                                           const queue_positions& positions) {
  const auto number = log.first_incomplete();
  if (number >= log.end() || log[number].step != step)
    return find_undelivered(step, placed, log, positions);
  const auto& op = log[number];
  missing_inputs out{op.is_gather(), op.bucket, {}, {}};
  out.replicas = log.replicas_without(number);
  if (!out.replicas.empty()) {
    out.processes = {placed.process};
    return out;
  }
  out.processes = order.schedule_of(op).silent_processes(op, number, positions);
  if (out.processes.empty())
    return find_undelivered(step, placed, log, positions);
  for (const auto p : out.processes) {
    const auto& replicas = placed.job.replicas_of(p);
    const auto arrived =
      out.gather ? positions.received(p, lane_id::contributions).j : 0;
    for (auto r = arrived; r < replicas.size(); ++r)
      out.replicas.push_back(replicas[r]);
  }
  std::ranges::sort(out.replicas);
  return out;
}

} // namespace troupe::collective
