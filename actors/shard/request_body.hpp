#pragma once

#include "troupe/net/codec/codec.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

// Messages that travel as a list of bytes in another one.

namespace troupe {

template <class T>
std::vector<std::uint8_t> encode_body(const T& x) {
  const auto bytes = net::encode(x);
  const auto* const first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return {first, first + bytes.size()};
}

/// @errors throws std::invalid_argument if the bytes are no such message.
template <class T>
T decode_body(const std::vector<std::uint8_t>& from) {
  T out{};
  if (const auto problem = net::decode(std::as_bytes(std::span{from}), out))
    throw std::invalid_argument("a malformed request: " + to_string(*problem));
  return out;
}

} // namespace troupe
