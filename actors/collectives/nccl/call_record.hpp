#pragma once

#include "troupe/strategies/collective/operation.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace troupe {

/// Describes one replica's call of a collective to the other ranks. Ranks send
/// the records of a collective before its tensors.
struct call_record {
  std::uint32_t replica = 0; ///< Replica that made the call.
  std::uint64_t step = 0;    ///< Number of the step.
  /// Index of the collective within the step, from 0. A replica increments it
  /// with each collective that it calls.
  std::uint32_t sequence = 0;
  bool is_gather = false;   ///< False: a sum.
  std::uint32_t bucket = 0; ///< Bucket of the sum, or number of the gather.
  tensor_spec spec{};       ///< Spec of the replica's tensor.
  collective_options options{};

  friend bool operator==(const call_record&, const call_record&) = default;
};

using call_record_bytes = std::array<std::byte, 112>;

call_record_bytes write(const call_record& record);
/// Sets `record` and returns true if the bytes are a record of a tensor that a
/// collective accepts. Otherwise returns false.
bool read(const call_record_bytes& bytes, call_record& record);

/// Compares the calls of two replicas at the same place of a generation.
/// @returns a sentence with both calls. Empty: they may take part in one
///          collective.
std::string describe_difference(const call_record& a, const call_record& b);

} // namespace troupe
