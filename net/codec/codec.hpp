#pragma once

#include "troupe/net/codec/reader.hpp"
#include "troupe/net/codec/writer.hpp"

#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace troupe::net {

/// Encodes values one after the other in Cereal's portable binary form.
template <encodable... Ts>
std::vector<std::byte> encode(const Ts&... xs) {
  writer to;
  to(xs...);
  return std::move(to).bytes();
}

/// Decodes the output of `encode`. Returns the first error and never throws.
/// Values that precede the error are set.
template <encodable... Ts>
std::optional<decode_error> decode(std::span<const std::byte> bytes,
                                   Ts&... xs) {
  reader from{bytes};
  from(xs...);
  return from.finish();
}

} // namespace troupe::net
