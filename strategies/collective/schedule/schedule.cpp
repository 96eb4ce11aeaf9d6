#include "troupe/strategies/collective/schedule/schedule.hpp"

namespace troupe::collective {

std::vector<std::uint32_t> late_peers(std::uint64_t number,
                                      std::uint32_t processes,
                                      std::uint32_t rank,
                                      const queue_positions& positions) {
  std::vector<std::uint32_t> out;
  for (const auto lane : {lane_id::contributions, lane_id::results}) {
    for (std::uint32_t p = 0; p < processes; ++p) {
      const bool arrived =
        lane == lane_id::contributions && positions.chunk_arrived(p);
      if (p != rank && !arrived
          && positions.received(p, lane).operation_number == number)
        out.push_back(p);
    }
    if (!out.empty())
      break;
  }
  return out;
}

} // namespace troupe::collective
