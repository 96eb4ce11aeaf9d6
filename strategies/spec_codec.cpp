#include "troupe/strategies/spec_codec.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>

namespace troupe {

static_assert(std::endian::native == std::endian::little);

spec_bytes encode_spec(const tensor_spec& spec) {
  spec_bytes out{};
  out[0] = static_cast<std::byte>(spec.dims.rank());
  out[1] = static_cast<std::byte>(spec.type);
  std::memcpy(out.data() + 8, spec.dims.begin(), spec.dims.rank() * 8);
  return out;
}

bool decode_spec(const spec_bytes& bytes, std::size_t max_bytes,
                 tensor_spec& spec) {
  const auto rank = std::to_integer<std::size_t>(bytes[0]);
  const auto type = std::to_integer<std::size_t>(bytes[1]);
  if (rank > shape::max_rank || type >= dtype_count)
    return false;
  std::array<std::int64_t, shape::max_rank> extents{};
  std::memcpy(extents.data(), bytes.data() + 8, rank * 8);
  const auto dims = std::span{extents}.first(rank);
  std::size_t max_elements = max_bytes / size_of(static_cast<dtype>(type));
  if (max_elements == 0 && rank == 0)
    return false;
  for (const auto n : dims) {
    if (n < 0 || static_cast<std::uint64_t>(n) > max_elements)
      return false;
    max_elements /= std::max<std::size_t>(static_cast<std::size_t>(n), 1);
  }
  spec = {shape{dims}, static_cast<dtype>(type)};
  return true;
}

} // namespace troupe
