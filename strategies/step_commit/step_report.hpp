#pragma once

#include "troupe/strategies/fields.hpp"

#include <cstdint>
#include <span>
#include <tuple>
#include <vector>

namespace troupe {

/// What a replica tells of one step; summed over replicas in tree order.
struct step_report {
  std::uint64_t examples = 0;
  double loss_sum = 0; ///< Over examples, not a mean.
  double correct = 0;  ///< Examples whose label was predicted.

  auto fields() { return std::tie(examples, loss_sum, correct); }
  friend bool operator==(const step_report&, const step_report&) = default;
};

/// One step as its replicas agreed on it.
struct commit_record {
  std::uint64_t step = 0;                  ///< Global, from 0.
  std::uint64_t epoch = 0;                 ///< Of the membership.
  std::vector<std::uint32_t> contributors; ///< Replica ids, ascending.
  step_report total;

  auto fields() { return std::tie(step, epoch, contributors, total); }
  friend bool operator==(const commit_record&, const commit_record&) = default;
};

/// The sum over replicas, in the order of the canonical tree (tree_sum.hpp).
/// @param reports by replica id.
step_report total(std::span<const step_report> reports);

} // namespace troupe
