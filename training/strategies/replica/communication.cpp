#include "troupe/training/strategies/replica/communication_conversions.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace troupe {

namespace {

using implementations = communication_options::implementations;
using backends = communication_options::backends;

[[noreturn]] void reject(const std::string& what, const std::string& why) {
  throw std::invalid_argument("communication_options: " + what + ": " + why);
}

void check(std::int64_t bytes_per_pack, const char* default_source) {
  if (bytes_per_pack < 0)
    reject("bytes_per_pack " + std::to_string(bytes_per_pack),
           std::string{"give a number of bytes, or 0 for the default of "}
             + default_source);
}

std::string in_lower_case(const std::string& name) {
  auto lower = name;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a')
                                : static_cast<char>(c);
  });
  return lower;
}

} // namespace

void check(const communication_options& options) {
  check(options.bytes_per_pack, "Troupe");
  if (options.implementation == implementations::nccl
      && options.collectives == backends::host)
    reject("implementation nccl",
           "the host cannot run it; give tree or ring, or leave out "
           "collectives host");
  if (options.implementation == implementations::ring
      && options.collectives == backends::nccl)
    reject("implementation ring",
           "NCCL has rings of its own; give nccl or tree, or leave out "
           "collectives nccl");
  if (options.timeout <= std::chrono::milliseconds{0})
    reject("timeout " + std::to_string(options.timeout.count()) + " ms",
           "the timeout must be positive; give "
           "1 ms or more");
  if (options.callback_timeout <= std::chrono::milliseconds{0})
    reject("callback_timeout "
             + std::to_string(options.callback_timeout.count()) + " ms",
           "the timeout must be positive; give 1 ms or more");
}

void check(const call_options& options) {
  check(options.bytes_per_pack, "the strategy");
  if (options.implementation == implementations::nccl)
    reject("implementation nccl",
           "it is an option of the strategy; give tree or ring");
  if (options.timeout < std::chrono::milliseconds{0})
    reject("timeout " + std::to_string(options.timeout.count()) + " ms",
           "give 1 ms or more, or 0 for the timeout of the strategy");
}

collective_options::algorithm_kind
algorithm_of(implementations implementation,
             collective_options::algorithm_kind default_algorithm) {
  switch (implementation) {
    case implementations::tree:
      return collective_options::algorithm_kind::tree;
    case implementations::ring:
      return collective_options::algorithm_kind::ring;
    case implementations::nccl:
      return collective_options::algorithm_kind::nccl;
    default:
      return default_algorithm;
  }
}

collective_options
to_collective_options(const call_options& options,
                      collective_options::algorithm_kind default_algorithm) {
  const auto max_ms = std::numeric_limits<std::uint32_t>::max();
  return {algorithm_of(options.implementation, default_algorithm),
          static_cast<std::uint32_t>(
            std::min<std::int64_t>(options.timeout.count(), max_ms)),
          static_cast<std::uint64_t>(options.bytes_per_pack)};
}

backends collectives_of(const communication_options& options) {
  return options.implementation == implementations::nccl ? backends::nccl
                                                         : options.collectives;
}

backends parse_collectives(const std::string& name) {
  const auto lower = in_lower_case(name);
  if (lower == "auto" || lower == "automatic")
    return backends::automatic;
  if (lower == "host")
    return backends::host;
  if (lower == "nccl")
    return backends::nccl;
  reject("collectives \"" + name + "\"", "give auto, host or nccl");
}

implementations parse_implementation(const std::string& name) {
  const auto lower = in_lower_case(name);
  if (lower == "auto" || lower == "automatic")
    return implementations::automatic;
  if (lower == "tree")
    return implementations::tree;
  if (lower == "ring")
    return implementations::ring;
  if (lower == "nccl")
    return implementations::nccl;
  reject("implementation \"" + name + "\"", "give auto, tree, ring or nccl");
}

} // namespace troupe
