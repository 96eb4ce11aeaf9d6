#include "troupe/strategies/collective_options.hpp"

namespace troupe {

std::string to_string(const terms& x) {
  std::string out = x.way == terms::ways::tree   ? "by tree"
                    : x.way == terms::ways::ring ? "by ring"
                                                 : "by an unknown algorithm";
  if (x.timeout > 0)
    out += " with timeout " + std::to_string(x.timeout) + " ms";
  if (x.bytes_per_pack > 0)
    out += (x.timeout > 0 ? " and" : " with")
           + (" bytes_per_pack " + std::to_string(x.bytes_per_pack));
  return out;
}

} // namespace troupe
