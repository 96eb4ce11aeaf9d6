#include "troupe/training/communication.hpp"

#include <algorithm>
#include <stdexcept>

namespace troupe {

namespace {

using implementations = communication_options::implementations;

[[noreturn]] void refuse(const std::string& what, const std::string& why) {
  throw std::invalid_argument("communication_options: " + what + ": " + why);
}

} // namespace

void check(const communication_options& x) {
  if (x.bytes_per_pack < 0)
    refuse("bytes_per_pack " + std::to_string(x.bytes_per_pack),
           "give a number of bytes, or 0 to leave it to Troupe");
  if (x.timeout <= std::chrono::milliseconds{0})
    refuse("timeout " + std::to_string(x.timeout.count()) + " ms",
           "nothing here waits for ever, and everything takes some time; give "
           "1 ms or more");
  if (x.implementation == implementations::ring)
    refuse("implementation ring",
           "it is not there yet; give tree, which moves as few bytes and has "
           "the same bits for any number of processes");
  if (x.implementation == implementations::nccl)
    refuse("implementation nccl",
           "it sums on GPUs, and there is no device for it here; give tree");
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
