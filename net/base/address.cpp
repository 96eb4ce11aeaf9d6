#include "troupe/net/base/address.hpp"

#include <charconv>
#include <optional>
#include <stdexcept>

namespace troupe::net {

namespace {

/// Maximum length of a host in characters. It excludes no valid DNS name,
/// because such a name has at most 253 characters.
constexpr std::size_t max_host_length = 255;

/// Returns at most 100 bytes of the text as one printable line, because a peer
/// may have sent it.
std::string shortened(std::string_view text) {
  constexpr std::size_t most = 100;
  std::string out;
  for (const auto value : text.substr(0, most))
    out += value < ' ' || value > '~' ? '?' : value;
  return out + (text.size() > most ? "..." : "");
}

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw std::invalid_argument{
    "'" + shortened(text) + "' is not a valid address: " + why
    + "; use host:port, such as node-1:7000, 127.0.0.1:7000 or "
      "[::1]:7000"};
}

std::optional<std::uint16_t> port_of(std::string_view text) {
  std::uint16_t port = 0;
  const auto end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, port);
  if (text.empty() || read.ec != std::errc{} || read.ptr != end)
    return {};
  return port;
}

bool is_in_name(char x) {
  return (x >= 'a' && x <= 'z') || (x >= 'A' && x <= 'Z')
         || (x >= '0' && x <= '9') || x == '-' || x == '.' || x == '_';
}

/// True if the character may be part of an IPv6 address. '%' starts a zone, as
/// in fe80::1%eth0.
bool is_in_ipv6(char x) {
  return is_in_name(x) || x == ':' || x == '%';
}

bool is_made_of(std::string_view text, bool (*is_in)(char)) {
  for (const auto x : text)
    if (!is_in(x))
      return false;
  return true;
}

} // namespace

address parse_address(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos)
    refuse(text, "it has no port");
  auto host = text.substr(0, colon);
  const auto port = port_of(text.substr(colon + 1));
  if (!port)
    refuse(text, "its port is not a number from 0 to 65535");
  const auto bracketed =
    host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed)
    host = host.substr(1, host.size() - 2);
  else if (host.find(':') != std::string_view::npos)
    refuse(text, "an IPv6 address must be in brackets");
  if (host.empty())
    refuse(text, "it has no host");
  if (host.size() > max_host_length)
    refuse(text, "its host is too long");
  if (!is_made_of(host, bracketed ? is_in_ipv6 : is_in_name)
      || (bracketed && host.find(':') == std::string_view::npos))
    refuse(text, bracketed ? "the text in brackets is not an IPv6 address"
                           : "its host is neither a name nor IPv4");
  return {std::string{host}, *port};
}

std::string to_string(const address& x) {
  const auto port = std::to_string(x.port);
  return x.host.find(':') == std::string::npos ? x.host + ':' + port
                                               : '[' + x.host + "]:" + port;
}

} // namespace troupe::net
