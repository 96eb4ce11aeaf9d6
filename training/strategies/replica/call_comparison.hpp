#pragma once

#include "troupe/tensors/tensor.hpp"
#include "troupe/training/strategies/replica/reduce_op.hpp"

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace troupe {

/// A call of a collective of `replica_context`, with what must be equal on all
/// replicas.
struct replica_call {
  enum class kind : std::uint8_t {
    all_reduce,
    all_gather,
    all_gather_list,
    broadcast,
  };
  kind called = kind::all_reduce;
  reduce_op op = sum;          ///< Operation of `all_reduce`.
  int axis = 0;                ///< Axis of `all_gather`.
  std::uint32_t root = 0;      ///< Root of `broadcast`.
  pooled<tensor_spec> specs{}; ///< Specs of the dense tensors of `all_reduce`.

  friend bool operator==(const replica_call&, const replica_call&) = default;
};

/// The calls that a replica has made in a step, in order.
using replica_calls = pooled<replica_call>;

/// Returns a hash of the calls. Equal calls have equal hashes in all processes.
std::uint64_t hash_of(const replica_calls& calls);

/// The calls as bytes for other processes.
std::string encode_calls(const replica_calls& calls);
/// @returns none if the text is malformed.
std::optional<replica_calls> decode_calls(const std::string& text);

/// Compares the calls of two replicas at the same place of a step.
/// @param index place of the calls in the step, from 0.
/// @errors throws std::logic_error with both replicas and calls if they differ.
void check_equal_calls(std::uint32_t replica, const replica_call& call,
                       std::uint32_t other, const replica_call& of_other,
                       std::size_t index);

/// Compares the calls of all replicas in a step.
/// @param texts by replica, of `encode_calls`.
/// @errors throws std::logic_error as `check_equal_calls` for the first place
///         at which calls differ, and if a text is malformed.
void check_equal_calls(std::span<const std::string> texts);

/// Compares the collectives that the replicas of one process call in a step,
/// when they call them. Replicas may be in different steps. Any thread may call
/// the function.
class call_comparison {
public:
  /// @param replicas number of replicas of this process.
  explicit call_comparison(std::uint32_t replicas) : replicas_{replicas} {}

  /// Notes that a replica makes the call at a place of a step.
  /// @param index place of the call in the step, from 0.
  /// @errors throws std::logic_error as `check_equal_calls` if a replica has
  ///         made another call at this place.
  void on_call(std::uint64_t generation, std::uint64_t step,
               std::uint32_t replica, std::size_t index,
               const replica_call& call);

private:
  /// The call of the replica that came first to its place.
  struct first_call {
    std::uint64_t step = 0;
    std::size_t index = 0; ///< Place in the step.
    std::uint32_t replica = 0;
    replica_call call;
    std::uint32_t compared = 1; ///< Replicas that have made the call.
  };

  const std::uint32_t replicas_;
  std::mutex lock_;
  std::uint64_t generation_ = 0;
  pooled<first_call> calls_; ///< Calls that not all replicas have made.
};

} // namespace troupe
