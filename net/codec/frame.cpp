#include "troupe/net/codec/frame.hpp"

#include "troupe/net/codec/crc32c.hpp"
#include "troupe/net/codec/frame_layout.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace troupe::net {

std::array<std::byte, header_size> header_of(const frame& message) {
  if (message.payload.size() > std::numeric_limits<std::uint32_t>::max())
    throw std::logic_error{"a frame's payload of "
                           + std::to_string(message.payload.size()) + " bytes"};
  std::array<std::byte, header_size> header{};
  std::copy(frame_magic.begin(), frame_magic.end(), header.begin());
  header[layout::version] = std::byte{wire_version};
  header[layout::kind] = static_cast<std::byte>(message.kind);
  header[layout::priority] = static_cast<std::byte>(message.priority);
  store_le(&header[layout::view_id], message.view_id);
  store_le(&header[layout::tag], message.tag);
  store_le(&header[layout::length],
           static_cast<std::uint32_t>(message.payload.size()));
  store_le(&header[layout::channel], message.channel);
  const auto head = crc32c(std::span{header}.first(layout::header_sum));
  store_le(&header[layout::header_sum], head);
  store_le(&header[layout::sum], crc32c(message.payload, head));
  return header;
}

std::vector<std::byte> to_bytes(const frame& x) {
  const auto header = header_of(x);
  std::vector<std::byte> bytes(header.size() + x.payload.size());
  std::copy(x.payload.begin(), x.payload.end(),
            std::copy(header.begin(), header.end(), bytes.begin()));
  return bytes;
}

} // namespace troupe::net
