#include "troupe/training/strategies/replica/tensor_packs.hpp"

namespace troupe {

namespace {

constexpr std::size_t automatic_pack_bytes = std::size_t{1} << 20;
constexpr std::size_t min_separate_bytes = std::size_t{64} << 10;
constexpr std::size_t alignment_elements = memory::alignment / sizeof(float);

std::size_t round_up(std::size_t elements) {
  return (elements + alignment_elements - 1) / alignment_elements
         * alignment_elements;
}

} // namespace

pooled<std::uint32_t> pack_indices(std::span<const std::size_t> bytes,
                                   std::size_t bytes_per_pack) {
  const bool automatic = bytes_per_pack == 0;
  const auto limit = automatic ? automatic_pack_bytes : bytes_per_pack;
  pooled<std::uint32_t> indices;
  indices.reserve(bytes.size());
  std::uint32_t packs = 0, open = 0;
  auto pack_bytes = limit + 1; // No pack is open.
  for (const auto size : bytes) {
    if (automatic && size >= min_separate_bytes) {
      indices.push_back(packs++);
      continue;
    }
    if (pack_bytes > limit) {
      open = packs++;
      pack_bytes = 0;
    }
    pack_bytes += size;
    indices.push_back(open);
  }
  return indices;
}

tensor_packs::tensor_packs(const tensors& xs, std::size_t bytes_per_pack) {
  pooled<std::size_t> bytes;
  for (const auto& x : xs)
    bytes.push_back(x.bytes());
  const auto indices = pack_indices(bytes, bytes_per_pack);
  pooled<std::size_t> sizes, count;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    if (indices[i] == sizes.size()) {
      sizes.push_back(0);
      count.push_back(0);
    }
    entries_.push_back({indices[i], sizes[indices[i]], xs[i].dims()});
    sizes[indices[i]] += round_up(xs[i].size());
    ++count[indices[i]];
  }
  packs_.resize(sizes.size());
  for (std::size_t i = 0; i < xs.size(); ++i) {
    auto& pack = packs_[indices[i]];
    const auto& input = xs[i];
    if (count[indices[i]] == 1) {
      pack = input.reshaped({static_cast<std::int64_t>(input.size())});
      continue;
    }
    if (!pack)
      pack = tensor{{{static_cast<std::int64_t>(sizes[indices[i]])}},
                    input.device()};
    const auto begin = entries_[i].begin, end = begin + input.size();
    pack.range(begin, end).reshaped(input.dims()).copy_from(input);
    pack.range(end, begin + round_up(input.size())).set_zero();
  }
}

tensors tensor_packs::unpacked(const tensors& packs) const {
  tensors out;
  out.reserve(entries_.size());
  for (const auto& x : entries_)
    out.push_back(packs[x.pack]
                    .range(x.begin, x.begin + x.dims.elements())
                    .reshaped(x.dims));
  return out;
}

} // namespace troupe
