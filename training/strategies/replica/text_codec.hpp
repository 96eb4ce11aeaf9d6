#pragma once

#include "troupe/net/codec/codec.hpp"

#include <span>
#include <string>

// Values as texts, for collectives that gather texts.

namespace troupe {

/// Encodes values as `net::encode` does.
template <net::encodable... Ts>
std::string encode_text(const Ts&... xs) {
  const auto bytes = net::encode(xs...);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Decodes the output of `encode_text`. @returns false if it is malformed.
template <net::encodable... Ts>
bool decode_text(const std::string& text, Ts&... xs) {
  return !net::decode(std::as_bytes(std::span{text}), xs...);
}

} // namespace troupe
