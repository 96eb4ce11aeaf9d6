#pragma once

#include "troupe/strategies/collective/schedule/packet_order.hpp"

#include <optional>
#include <vector>

namespace troupe::collective {

/// Missing inputs of the first incomplete collective.
struct missing_inputs {
  /// True: the collective is a gather. False: it is a sum.
  bool gather = false;
  std::uint32_t bucket = 0;
  /// Processes whose inputs are missing, ascending. This process may be one of
  /// them.
  std::vector<std::uint32_t> processes;
  /// Replicas of these processes whose inputs are missing, ascending. For a
  /// sum, all replicas of a remote process are listed.
  std::vector<std::uint32_t> replicas;
};

/// Returns the missing inputs of the first incomplete operation of a step. If
/// all inputs have arrived: a peer that has not accepted all packets of the
/// step. nullopt: none.
std::optional<missing_inputs> find_missing(std::uint64_t step,
                                           const local_placement& placed,
                                           const operation_log& log,
                                           const packet_order& order,
                                           const queue_positions& positions);

} // namespace troupe::collective
