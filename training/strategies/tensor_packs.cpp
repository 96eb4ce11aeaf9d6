#include "troupe/training/strategies/tensor_packs.hpp"

#include <cstring>

namespace troupe {

namespace {

constexpr std::size_t automatic_pack = std::size_t{1} << 20;
constexpr std::size_t travels_alone = std::size_t{64} << 10;
constexpr std::size_t granule = memory::alignment / sizeof(float);

std::size_t rounded(std::size_t elements) {
  return (elements + granule - 1) / granule * granule;
}

} // namespace

pooled<std::uint32_t> packs_of(std::span<const std::size_t> bytes,
                               std::size_t bytes_per_pack) {
  const bool automatic = bytes_per_pack == 0;
  const auto limit = automatic ? automatic_pack : bytes_per_pack;
  pooled<std::uint32_t> of;
  of.reserve(bytes.size());
  std::uint32_t packs = 0, open = 0;
  auto held = limit + 1; // No pack is open.
  for (const auto size : bytes) {
    if (automatic && size >= travels_alone) {
      of.push_back(packs++);
      continue;
    }
    if (held > limit) {
      open = packs++;
      held = 0;
    }
    held += size;
    of.push_back(open);
  }
  return of;
}

packed::packed(const tensors& xs, std::size_t bytes_per_pack) {
  pooled<std::size_t> bytes;
  for (const auto& x : xs)
    bytes.push_back(x.bytes());
  const auto of = packs_of(bytes, bytes_per_pack);
  pooled<std::size_t> sizes, count;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    if (of[i] == sizes.size()) {
      sizes.push_back(0);
      count.push_back(0);
    }
    members_.push_back({of[i], sizes[of[i]], xs[i].dims()});
    sizes[of[i]] += rounded(xs[i].size());
    ++count[of[i]];
  }
  packs_.resize(sizes.size());
  for (std::size_t i = 0; i < xs.size(); ++i) {
    auto& pack = packs_[of[i]];
    const auto& x = xs[i];
    if (count[of[i]] == 1) {
      pack = x.reshaped({static_cast<std::int64_t>(x.size())});
      continue;
    }
    if (!pack)
      pack = tensor{shape{static_cast<std::int64_t>(sizes[of[i]])}};
    auto* to = pack.raw() + members_[i].begin * sizeof(float);
    if (x.bytes() > 0)
      std::memcpy(to, x.raw(), x.bytes());
    const auto gap = rounded(x.size()) * sizeof(float) - x.bytes();
    std::memset(to + x.bytes(), 0, gap);
  }
}

tensors packed::unpacked(const tensors& packs) const {
  tensors out;
  out.reserve(members_.size());
  for (const auto& x : members_)
    out.push_back(packs[x.pack]
                    .range(x.begin, x.begin + x.dims.elements())
                    .reshaped(x.dims));
  return out;
}

} // namespace troupe
