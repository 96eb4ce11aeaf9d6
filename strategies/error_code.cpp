#include "troupe/strategies/error_code.hpp"

namespace troupe {

std::string to_string(ec x) {
  switch (x) {
    case ec::superseded:
      return "superseded";
    case ec::protocol:
      return "protocol";
    case ec::busy:
      return "busy";
    case ec::peer_lost:
      return "peer_lost";
    case ec::unreachable:
      return "unreachable";
    case ec::stalled:
      return "stalled";
    case ec::invalid:
      return "invalid";
    case ec::refused:
      return "refused";
    case ec::cancelled:
      return "cancelled";
    case ec::corrupt:
      return "corrupt";
  }
  return "?";
}

} // namespace troupe
