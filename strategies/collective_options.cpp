#include "troupe/strategies/collective_options.hpp"

namespace troupe {

std::string to_string(const collective_options& options) {
  std::string out =
    options.algorithm == collective_options::algorithm_kind::tree   ? "by tree"
    : options.algorithm == collective_options::algorithm_kind::ring ? "by ring"
    : options.algorithm == collective_options::algorithm_kind::nccl
      ? "by NCCL"
      : "by an unknown algorithm";
  if (options.timeout > 0)
    out += " with timeout " + std::to_string(options.timeout) + " ms";
  if (options.bytes_per_pack > 0)
    out += (options.timeout > 0 ? " and" : " with")
           + (" bytes_per_pack " + std::to_string(options.bytes_per_pack));
  if (options.tensors > 0)
    out += " for " + std::to_string(options.tensors)
           + (options.tensors == 255 ? " or more" : "")
           + (options.tensors == 1 ? " tensor" : " tensors");
  return out;
}

} // namespace troupe
