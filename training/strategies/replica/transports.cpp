#include "troupe/training/strategies/replica/transports.hpp"

#include "troupe/actors/membership/cluster.hpp"

namespace troupe {

std::string transports_of(const cluster& joined) {
  std::string names;
  for (const auto& x : joined.current_view().members)
    if (const auto one = joined.transport_to(x.task);
        one != "none" && names.find(one) == names.npos)
      names += (names.empty() ? "" : "+") + one;
  if (joined.uses_nccl() && !names.empty())
    names += "+nccl";
  return names.empty() ? "none" : names;
}

} // namespace troupe
