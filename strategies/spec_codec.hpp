#pragma once

#include "troupe/tensors/tensor.hpp"

#include <array>
#include <cstddef>

namespace troupe {

/// Shape and dtype of a tensor as bytes: rank (1 byte), dtype (1 byte), 6 zero
/// bytes, and 8 extents of 8 bytes each. The extents beyond the rank are 0.
using spec_bytes = std::array<std::byte, 72>;

spec_bytes encode_spec(const tensor_spec& spec);

/// Sets `spec` and returns true if the bytes describe a tensor of at most
/// `max_bytes`. Otherwise returns false.
bool decode_spec(const spec_bytes& bytes, std::size_t max_bytes,
                 tensor_spec& spec);

} // namespace troupe
