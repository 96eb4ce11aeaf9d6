#include "troupe/net/codec.hpp"

namespace troupe::net {

// -- writer -------------------------------------------------------------------

std::streamsize writer::appender::xsputn(const char* from, std::streamsize n) {
  const auto* p = reinterpret_cast<const std::byte*>(from);
  bytes.insert(bytes.end(), p, p + n);
  return n;
}

writer::appender::int_type writer::appender::overflow(int_type c) {
  bytes.push_back(static_cast<std::byte>(c));
  return c;
}

std::uint32_t writer::length_of(std::size_t n, std::uint32_t limit) {
  if (n > limit)
    throw std::logic_error("a message part of length " + std::to_string(n)
                           + "; at most " + std::to_string(limit)
                           + " may be sent");
  return static_cast<std::uint32_t>(n);
}

void writer::put(const std::string& x) {
  const auto n = length_of(x.size(), longest_text);
  put(n);
  to_(cereal::binary_data(x.data(), n));
}

// -- reader -------------------------------------------------------------------

reader::window::window(std::span<const std::byte> from) {
  auto* p = const_cast<char*>(reinterpret_cast<const char*>(from.data()));
  setg(p, p, p + from.size());
}

reader::reader(std::span<const std::byte> from)
  : buffer_{from}, stream_{&buffer_} {
  if (from.empty())
    throw bad_message("an empty message");
  if (from[0] > std::byte{1}) // Cereal's mark of the byte order
    throw bad_message("a message in no byte order");
  from_ = std::make_unique<cereal::PortableBinaryInputArchive>(stream_);
}

void reader::need(std::size_t bytes) const {
  if (left() < bytes)
    throw bad_message("a message cut short: " + std::to_string(bytes)
                      + " bytes are to come, " + std::to_string(left())
                      + " are there");
}

void reader::get(std::string& x) {
  std::uint32_t n = 0;
  get(n);
  if (n > longest_text)
    throw bad_message("a text of " + std::to_string(n) + " bytes");
  need(n);
  x.resize(n);
  (*from_)(cereal::binary_data(x.data(), n));
}

void reader::end() const {
  if (left() > 0)
    throw bad_message("a message with " + std::to_string(left())
                      + " bytes too many");
}

} // namespace troupe::net
