#include "troupe/actors/node/spare_protocol.hpp"

#include "troupe/net/base/address.hpp"
#include "troupe/net/codec/codec.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace troupe {

std::string fault_of(const spare_description& spare) {
  try {
    const auto address = net::parse_address(spare.address);
    constexpr std::array<std::string_view, 2> any_interface{"0.0.0.0", "::"};
    if (address.port == 0
        || std::ranges::find(any_interface, address.host)
             != any_interface.end())
      return "no process can connect to " + spare.address
             + ": advertise the address of this node for other processes";
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return {};
}

std::optional<spare_description>
decode_description(std::span<const std::byte> bytes, std::string& fault) {
  spare_description out;
  if (const auto error = net::decode(bytes, out)) {
    fault = "the description of the spare is malformed: " + to_string(*error);
    return {};
  }
  return out;
}

std::optional<spare_outcome> decode_outcome(std::span<const std::byte> bytes,
                                            std::string& fault) {
  spare_outcome out;
  if (const auto error = net::decode(bytes, out)) {
    fault = "the outcome is malformed: " + to_string(*error);
    return {};
  }
  return out;
}

const std::vector<std::byte>& try_again() {
  static const std::vector<std::byte> payload{std::byte{2}};
  return payload;
}

} // namespace troupe
