#include "troupe/training/strategies/communication_conversions.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace troupe {

namespace {

using implementations = communication_options::implementations;

[[noreturn]] void refuse(const std::string& what, const std::string& why) {
  throw std::invalid_argument("communication_options: " + what + ": " + why);
}

void check(std::int64_t bytes_per_pack, implementations how,
           const char* whose) {
  if (bytes_per_pack < 0)
    refuse("bytes_per_pack " + std::to_string(bytes_per_pack),
           std::string{"give a number of bytes, or 0 for the default of "}
             + whose);
  if (how == implementations::nccl)
    refuse("implementation nccl",
           "it requires GPUs, which are not supported; give tree or "
           "ring");
}

} // namespace

void check(const communication_options& x) {
  check(x.bytes_per_pack, x.implementation, "Troupe");
  if (x.timeout <= std::chrono::milliseconds{0})
    refuse("timeout " + std::to_string(x.timeout.count()) + " ms",
           "the timeout must be positive; give "
           "1 ms or more");
  if (x.callback_timeout <= std::chrono::milliseconds{0})
    refuse("callback_timeout " + std::to_string(x.callback_timeout.count())
             + " ms",
           "the timeout must be positive; give 1 ms or more");
}

void check(const call_options& x) {
  check(x.bytes_per_pack, x.implementation, "the strategy");
  if (x.timeout < std::chrono::milliseconds{0})
    refuse("timeout " + std::to_string(x.timeout.count()) + " ms",
           "give 1 ms or more, or 0 for the timeout of the strategy");
}

terms::ways way_of(implementations x, terms::ways usual) {
  switch (x) {
    case implementations::tree:
      return terms::ways::tree;
    case implementations::ring:
      return terms::ways::ring;
    default:
      return usual;
  }
}

terms terms_of(const call_options& x, terms::ways usual) {
  const auto most = std::numeric_limits<std::uint32_t>::max();
  return {
    way_of(x.implementation, usual),
    static_cast<std::uint32_t>(std::min<std::int64_t>(x.timeout.count(), most)),
    static_cast<std::uint64_t>(x.bytes_per_pack)};
}

implementations parse_implementation(const std::string& name) {
  auto lower = name;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a')
                                : static_cast<char>(c);
  });
  if (lower == "auto" || lower == "automatic")
    return implementations::automatic;
  if (lower == "tree")
    return implementations::tree;
  if (lower == "ring")
    return implementations::ring;
  if (lower == "nccl")
    return implementations::nccl;
  refuse("implementation \"" + name + "\"", "give auto, tree, ring or nccl");
}

} // namespace troupe
