#include "troupe/strategies/collective/packet.hpp"

#include "troupe/strategies/tree/fold.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace troupe::exchange {

namespace {

constexpr std::size_t kib = 1024;

/// Maximum total number of bytes that a process sends if every process adds the
/// bucket itself, in one hop.
constexpr std::size_t most_direct = 32 * kib;
/// Maximum size of a bucket, in bytes, that is not cut into chunks.
constexpr std::size_t most_whole = 32 * kib;
/// Chunks per process: enough to overlap copying, adding and sending.
constexpr std::size_t chunks_each = 4;
constexpr std::size_t least_chunk = 16 * kib;
constexpr std::size_t line = 64;

void add_subtrees(std::uint32_t a, std::uint32_t b, range of,
                  std::vector<range>& out) {
  if (b <= of.begin || a >= of.end)
    return;
  if (a >= of.begin && b <= of.end) {
    out.push_back({a, b});
    return;
  }
  const auto cut = a + static_cast<std::uint32_t>(tree::split(b - a));
  add_subtrees(a, cut, of, out);
  add_subtrees(cut, b, of, out);
}

} // namespace

std::uint32_t layout::process_of(std::uint32_t replica) const {
  const auto after = std::ranges::upper_bound(first, replica);
  return static_cast<std::uint32_t>(after - first.begin()) - 1;
}

std::vector<range> subtrees_of(const layout& x, std::uint32_t process) {
  std::vector<range> out;
  add_subtrees(0, x.replicas(), {x.first[process], x.first[process + 1]}, out);
  return out;
}

cut cut_of(std::size_t elements, dtype type, std::uint32_t processes,
           terms::ways way) {
  const auto bytes = elements * size_of(type);
  if (bytes == 0)
    return {};
  if (way == terms::ways::tree && processes > 1
      && bytes <= most_direct / (processes - 1))
    return {elements, 1, true};
  if (bytes <= most_whole)
    return {elements, 1, false};
  const auto fair = bytes / (chunks_each * processes);
  const auto each =
    (std::clamp(fair, least_chunk, most_bytes) + line - 1) / line * line;
  return {each / size_of(type),
          static_cast<std::uint32_t>((bytes + each - 1) / each), false};
}

// -- headers ------------------------------------------------------------------

static_assert(std::endian::native == std::endian::little);
static_assert(sizeof(parcel) == sizeof(head));

head write(const parcel& x) {
  return std::bit_cast<head>(x);
}

parcel read(const head& x) {
  return std::bit_cast<parcel>(x);
}

share_spec write(const tensor_spec& x) {
  share_spec out{};
  out[0] = static_cast<std::byte>(x.dims.rank());
  out[1] = static_cast<std::byte>(x.type);
  std::memcpy(out.data() + 8, x.dims.begin(), x.dims.rank() * 8);
  return out;
}

bool read(const share_spec& x, tensor_spec& into) {
  const auto rank = std::to_integer<std::size_t>(x[0]);
  const auto type = std::to_integer<std::size_t>(x[1]);
  if (rank > shape::max_rank || type >= dtype_count)
    return false;
  std::array<std::int64_t, shape::max_rank> extents{};
  std::memcpy(extents.data(), x.data() + 8, rank * 8);
  const auto dims = std::span{extents}.first(rank);
  std::size_t most = most_share / size_of(static_cast<dtype>(type));
  for (const auto n : dims) {
    if (n < 0 || static_cast<std::uint64_t>(n) > most)
      return false;
    most /= std::max<std::size_t>(static_cast<std::size_t>(n), 1);
  }
  into = {shape{dims}, static_cast<dtype>(type)};
  return true;
}

} // namespace troupe::exchange
