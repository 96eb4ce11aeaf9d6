#include "troupe/training/strategies/calls/result_codec.hpp"

#include <array>
#include <stdexcept>

namespace troupe::detail {

bool result_reader::get_tensor(tensor& x) {
  bool exists = false;
  std::uint8_t type = 0, rank = 0;
  std::array<std::int64_t, shape::max_rank> extents{};
  x = {};
  if (!get(exists))
    return false;
  if (!exists)
    return true;
  if (!get(type) || type >= dtype_count || !get(rank) || rank > extents.size())
    return false;
  for (std::size_t i = 0; i < rank; ++i)
    if (!get(extents[i]))
      return false;
  shape dims;
  try {
    dims = shape{std::span<const std::int64_t>{extents.data(), rank}};
  } catch (const std::logic_error&) {
    return false;
  }
  const tensor_spec spec{dims, static_cast<dtype>(type)};
  if (dims.elements() > rest_.size() / size_of(spec.type))
    return false;
  x = tensor{spec};
  return x.bytes() == 0 || bytes(x.raw(), x.bytes());
}

} // namespace troupe::detail
