#pragma once

#include "troupe/strategies/tree/reduction.hpp"

#include <limits>
#include <string>

// Makes messages of the tree protocol for its tests.

namespace troupe::tree::testing {

inline constexpr auto all_elements = std::numeric_limits<std::size_t>::max();

inline contribution contribution_by(std::uint32_t replica,
                                    std::uint32_t slice = 0,
                                    std::uint32_t slices = 1) {
  return {{1, 7, 0, replica, 3, slice, slices}};
}

inline slice_spec spec_of(std::uint32_t replicas) {
  return {1, 7, 3, replicas, 0, 1};
}

inline slice_key key_of(std::uint64_t step, std::uint32_t replica,
                        std::uint32_t bucket = 0,
                        std::uint64_t generation = 1) {
  return {generation, step, 1, replica, bucket, 0, 1};
}

inline tensor ones(std::size_t elements = 4) {
  return tensor::full({std::int64_t(elements)}, 1);
}

/// Returns why a peer violated the protocol, or "no fault".
inline std::string reason_of(const reaction& x) {
  const auto* const fault = std::get_if<protocol_error>(&x);
  return fault ? fault->reason : "no fault";
}

} // namespace troupe::tree::testing
