#pragma once

#include "troupe/strategies/collective_options.hpp"
#include "troupe/tensors/tensor.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace troupe::tree {

/// One call of a collective, as one replica made it.
struct collective_call {
  std::uint32_t replica = 0; ///< Replica that made the call.
  /// Step number. Within a generation each step has a higher number than the
  /// step before.
  std::uint64_t step = 0;
  std::uint32_t sequence = 0; ///< Index of the call in the step, from 0.
  bool is_gather = false;     ///< False: a sum.
  std::uint32_t bucket = 0;   ///< Bucket of the sum, or number of the gather.
  tensor_spec spec{};         ///< Spec of the replica's tensor.
  collective_options options{};
};

/// Compares the k-th calls of two replicas in a step. Two sums are not
/// compared: the reducer of a bucket compares its contributions, and replicas
/// may contribute to buckets in different orders.
/// @returns what differs, with both calls. Empty: nothing.
std::string describe_difference(const collective_call& a,
                                const collective_call& b);

/// Compares the collectives that one replica calls with the gathers of the
/// other replicas. A gather is sent to all replicas. So if replicas call a sum
/// and a gather at the same place of a step, each replica that called the sum
/// finds the difference.
class call_order {
public:
  explicit call_order(std::uint32_t replica) : replica_{replica} {}

  /// Begins a step and discards the calls of older steps. A new generation also
  /// discards the gathers of later steps, and the difference.
  void begin_step(std::uint64_t generation, std::uint64_t step);

  /// Notes a call of this replica. `replica`, `step` and `sequence` of the call
  /// are set here.
  void on_own_call(collective_call call);

  /// Notes a gather of another replica, of this step or of a later one.
  void on_gather(const collective_call& call);

  /// Number of calls of this replica in the current step.
  std::uint32_t size() const { return std::uint32_t(own_.size()); }

  /// Describes the first difference in this generation. None: none was found.
  const std::optional<std::string>& difference() const { return difference_; }

private:
  void compare(const collective_call& other);

  std::uint32_t replica_;
  std::uint64_t generation_ = 0, step_ = 0;
  pooled<collective_call> own_;     ///< In the current step, in order.
  pooled<collective_call> gathers_; ///< Gathers of other replicas.
  std::optional<std::string> difference_;
};

} // namespace troupe::tree
