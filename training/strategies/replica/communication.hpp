#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace troupe {

/// Options of the collectives between the replicas of several processes.
struct communication_options {
  /// `all_reduce` of several tensors fuses the tensors into packs. It opens a
  /// new pack when the previous pack holds more than this number of bytes.
  /// Zero: the thresholds of `pack_indices` (tensor_packs.hpp).
  std::int64_t bytes_per_pack = 0;

  /// Timeout of one step and of each wait in it.
  std::chrono::milliseconds timeout{60'000};

  /// Maximum wait for another worker to call `fit`, `evaluate` or `save`, or to
  /// finish a save or a callback of `fit`. If `timeout` is longer than
  /// `callback_timeout`, `timeout` is the limit. The loss of a worker ends the
  /// wait at once.
  std::chrono::milliseconds callback_timeout{600'000};

  /// Algorithm of an all-reduce. `tree` adds in the order of the canonical
  /// tree, which does not depend on the placement of the replicas. `ring` adds
  /// in an order that depends on the number of workers and their ranks; each
  /// worker sends only to the next worker. `nccl` is the all-reduce of NCCL,
  /// whose order depends on the placement too; it needs `backends::nccl`. In a
  /// job of one process, `ring` and `nccl` mean `tree`.
  enum class implementations : std::uint8_t {
    automatic, ///< Selects `tree`.
    tree,
    ring,
    nccl,
  } implementation = implementations::automatic;

  /// What adds the gradients of `fit` of replicas on CUDA devices. With the
  /// algorithm `tree`, the bits do not depend on it.
  enum class backends : std::uint8_t {
    /// `nccl` in each view in which all workers can use it, unless the
    /// algorithm is `ring` or the connections are encrypted. Else `host`.
    automatic,
    /// The processors, after a copy to the host.
    host,
    /// The devices, which exchange the gradients through NCCL. If a worker
    /// cannot use NCCL, the job does not begin. If one that joins later cannot,
    /// the processors add as long as it is there. NCCL does not encrypt what it
    /// sends.
    nccl,
  } collectives = backends::automatic;
};

/// Options of one collective call. All replicas must pass equal options. The
/// default of a field selects the strategy's value.
struct call_options {
  std::int64_t bytes_per_pack = 0;
  /// Timeout of each wait in the call. It cannot exceed the strategy's timeout.
  /// Zero: the strategy's timeout.
  std::chrono::milliseconds timeout{0};
  communication_options::implementations implementation =
    communication_options::implementations::automatic;
};

/// @errors throws std::invalid_argument that names an option whose value is
///         invalid or not supported.
void check(const communication_options& options);
void check(const call_options& options);

/// Returns the backend that the options ask for. `implementations::nccl` asks
/// for `backends::nccl`.
communication_options::backends
collectives_of(const communication_options& options);

/// Parses "auto", "automatic", "host" or "nccl", in upper or lower case.
/// @errors throws std::invalid_argument for any other name.
communication_options::backends parse_collectives(const std::string& name);

/// Parses "auto", "automatic", "tree", "ring" or "nccl", in upper or lower
/// case.
/// @errors throws std::invalid_argument for any other name.
communication_options::implementations
parse_implementation(const std::string& name);

} // namespace troupe
