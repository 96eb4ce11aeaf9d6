#include "troupe/actors/faults/message_fault.hpp"

#include <chrono>
#include <cstdint>

namespace troupe::injection {

namespace {

bool happens(double probability, std::mt19937_64& random) {
  // 53 bits, the precision of a double: the conversion is exact on all
  // machines.
  return static_cast<double>(random() >> 11) * 0x1p-53 < probability;
}

} // namespace

bool occurs_to_message(const fault& one, const role_id& sender,
                       const role_id& receiver, std::mt19937_64& random) {
  return (!one.replica || sender == replica_id(*one.replica)
          || receiver == replica_id(*one.replica))
         && happens(*one.probability, random);
}

void apply_fault(const fault& one, std::mt19937_64& random,
                 fault_injector::injected_fault& message) {
  using duration = std::chrono::nanoseconds;
  switch (one.kind) {
    case fault_kind::drop:
      message.dropped = true;
      break;
    case fault_kind::duplicate:
      message.duplicated = true;
      break;
    case fault_kind::corrupt:
      message.corrupted = true;
      break;
    default: // a delay
      message.delay = duration{static_cast<duration::rep>(
        1 + random() % static_cast<std::uint64_t>(one.duration.count()))};
      break;
  }
}

} // namespace troupe::injection
