// Fuzzes net/base/address with arbitrary texts.
#include "troupe/net/base/address.hpp"
#include "troupe/tests/fuzz/fuzz.hpp"

#include <stdexcept>

using namespace troupe::net;

namespace troupe::fuzz {

namespace {

void check_text(const std::string& why) {
  for (const unsigned char c : why)
    require(c >= ' ' && c < 127, "a refusal is one line of text");
  require(why.size() < 400, "a refusal is short");
  require(why.find("use host:port") != why.npos,
          "the error names a valid form");
}

} // namespace

void try_one(view input) {
  const std::string_view text{reinterpret_cast<const char*>(input.data()),
                              input.size()};
  address x;
  try {
    const auto peak = memory_of([&] { x = parse_address(text); });
    require(peak <= 2048, "an address takes little memory");
  } catch (const std::invalid_argument& e) {
    return check_text(e.what());
  }
  require(!x.host.empty() && x.host.size() <= 255, "hosts have a size");
  for (const unsigned char c : x.host)
    require(c > ' ' && c < 127, "a host has only signs that can be seen");
  require(parse_address(to_string(x)) == x, "its text is the same address");
}

std::vector<bytes> seeds() {
  return {of_text("node-1.example.org:7000"),
          of_text("127.0.0.1:0"),
          of_text("[::1]:65535"),
          of_text("[fe80::1%eth0]:7000"),
          of_text("::1:7000"),
          of_text("[a]:1"),
          of_text(":1"),
          of_text("a:65536")};
}

} // namespace troupe::fuzz
