#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace troupe {

/// Options of the collectives between the replicas of several processes.
struct communication_options {
  /// `all_reduce` of many tensors fuses them into packs: a new pack is opened
  /// when the previous one holds more bytes than this. Zero: the thresholds of
  /// `pack_indices` (tensor_packs.hpp).
  std::int64_t bytes_per_pack = 0;

  /// Timeout of one step and of each wait in it.
  std::chrono::milliseconds timeout{60'000};

  /// Timeout for another worker to finish a save or a callback of `fit`, or to
  /// call `fit`, `evaluate` or `save`. If `timeout` is longer, it applies
  /// instead. A lost worker is nevertheless detected immediately.
  std::chrono::milliseconds callback_timeout{600'000};

  /// The algorithm of the sum. `tree` adds in the order of the canonical tree,
  /// independent of the placement of the replicas. `ring` adds in an order that
  /// depends on the number of workers and their ranks; each worker sends only
  /// to the next one. In a job of one process both are the tree. `nccl` is not
  /// implemented.
  enum class implementations : std::uint8_t {
    automatic, ///< The tree.
    tree,
    ring,
    nccl,
  } implementation = implementations::automatic;
};

/// Options of one collective call; all replicas pass equal ones. A field left
/// at its default takes the strategy's value.
struct call_options {
  std::int64_t bytes_per_pack = 0;
  /// Timeout of each wait in the call, at most the strategy's timeout. Zero:
  /// the strategy's timeout.
  std::chrono::milliseconds timeout{0};
  communication_options::implementations implementation =
    communication_options::implementations::automatic;
};

/// @errors throws std::invalid_argument that names an option whose value is
///         invalid or not supported.
void check(const communication_options& options);
void check(const call_options& options);

/// Parses "auto", "automatic", "tree", "ring" or "nccl", in any case.
/// @errors throws std::invalid_argument for any other name.
communication_options::implementations
parse_implementation(const std::string& name);

} // namespace troupe
