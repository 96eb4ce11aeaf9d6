#include "troupe/strategies/tensor_transfer/packet.hpp"

namespace troupe::tensor_transfer {

packet_header_bytes write(const packet_header& header) {
  return encode_header(header);
}

packet_header read(const packet_header_bytes& bytes) {
  return decode_header<packet_header>(bytes);
}

bool is_for_receiver(packet_kind kind) {
  switch (kind) {
    case packet_kind::offer:
    case packet_kind::spec:
    case packet_kind::chunk:
    case packet_kind::cancel:
      return true;
    case packet_kind::grant:
    case packet_kind::received:
    case packet_kind::refuse:
      break;
  }
  return false;
}

reaction violation(const packet_header& packet, const std::string& reason) {
  return {protocol_error{"tensor transfer " + std::to_string(packet.transfer)
                         + ": " + reason}};
}

} // namespace troupe::tensor_transfer
