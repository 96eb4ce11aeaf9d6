#include "troupe/net/codec/reader.hpp"

#include <utility>

namespace troupe::net {

reader::reader(std::span<const std::byte> bytes) : bytes_{bytes} {
  std::uint8_t order = 1;
  get_number(order);
  if (!failed() && order != 1)
    fail_before(1, "byte order " + std::to_string(order)
                     + ", but 1 (little-endian) is expected");
}

std::span<const std::byte> reader::raw(std::uint64_t count, const char* kind) {
  if (failed())
    return {};
  if (count > remaining()) {
    fail("a " + std::string{kind} + " of " + std::to_string(count)
         + " bytes, but " + std::to_string(remaining()) + " are left");
    return {};
  }
  const auto found = bytes_.subspan(offset_, count);
  offset_ += count;
  return found;
}

std::size_t reader::count(std::size_t min_bytes, const char* kind) {
  std::uint64_t n = 0;
  get_number(n);
  if (failed() || n <= remaining() / min_bytes)
    return failed() ? 0 : n;
  fail_before(sizeof n, "a " + std::string{kind} + " of " + std::to_string(n)
                          + ", but " + std::to_string(remaining())
                          + " bytes are left");
  return 0;
}

void reader::get(std::string& value) {
  const auto from = raw(count(1, "text"), "text");
  if (!failed())
    value.assign(reinterpret_cast<const char*>(from.data()), from.size());
}

void reader::get_bool(bool& value) {
  std::uint8_t number = 0;
  get_number(number);
  if (number > 1)
    fail_before(1, std::to_string(number) + " is neither true nor false");
  else if (!failed())
    value = number == 1;
}

void reader::fail(std::string reason) {
  if (!error_)
    error_ = decode_error{offset_, std::move(reason)};
}

void reader::fail_before(std::size_t bytes, std::string reason) {
  if (!error_)
    error_ = decode_error{offset_ - bytes, std::move(reason)};
}

std::optional<decode_error> reader::finish() {
  if (remaining() > 0)
    fail(std::to_string(remaining()) + " bytes too many");
  return error_;
}

} // namespace troupe::net
