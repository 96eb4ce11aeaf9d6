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

std::span<const std::byte> reader::raw(std::uint64_t count, const char* what) {
  if (failed())
    return {};
  if (count > left()) {
    fail("a " + std::string{what} + " of " + std::to_string(count)
         + " bytes, but " + std::to_string(left()) + " are left");
    return {};
  }
  const auto found = bytes_.subspan(at_, count);
  at_ += count;
  return found;
}

std::size_t reader::count(std::size_t least, const char* what) {
  std::uint64_t n = 0;
  get_number(n);
  if (failed() || n <= left() / least)
    return failed() ? 0 : n;
  fail_before(sizeof n, "a " + std::string{what} + " of " + std::to_string(n)
                          + ", but " + std::to_string(left())
                          + " bytes are left");
  return 0;
}

void reader::get(std::string& x) {
  const auto from = raw(count(1, "text"), "text");
  if (!failed())
    x.assign(reinterpret_cast<const char*>(from.data()), from.size());
}

void reader::get_bool(bool& x) {
  std::uint8_t number = 0;
  get_number(number);
  if (number > 1)
    fail_before(1, std::to_string(number) + " is neither true nor false");
  else if (!failed())
    x = number == 1;
}

void reader::fail(std::string why) {
  if (!fault_)
    fault_ = malformed{at_, std::move(why)};
}

void reader::fail_before(std::size_t bytes, std::string why) {
  if (!fault_)
    fault_ = malformed{at_ - bytes, std::move(why)};
}

std::optional<malformed> reader::finish() {
  if (left() > 0)
    fail(std::to_string(left()) + " bytes too many");
  return fault_;
}

} // namespace troupe::net
