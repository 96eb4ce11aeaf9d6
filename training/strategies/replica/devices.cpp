#include "troupe/training/strategies/replica/devices.hpp"

#include <algorithm>
#include <stdexcept>

namespace troupe {

void check_threads(int threads) {
  if (threads < 1)
    throw std::invalid_argument(
      "threads: " + std::to_string(threads)
      + " is not a valid number of threads; give 1 or more");
}

std::vector<device> parse_devices(const std::vector<std::string>& names) {
  if (names.empty())
    throw std::invalid_argument("devices: the list is empty; name one for each "
                                "replica, as in cpu:0, cpu:1");
  std::vector<device> devices;
  for (const auto& name : names) {
    const auto one = parse_device(name);
    if (std::ranges::find(devices, one) != devices.end())
      throw std::invalid_argument(
        "devices: " + name + " is named twice; each device takes one replica");
    devices.push_back(one);
  }
  if (const auto why = why_not_together(devices); !why.empty())
    throw std::invalid_argument("devices: " + why);
  return devices;
}

std::vector<device> cpu_devices(std::uint32_t count) {
  std::vector<device> devices;
  for (std::uint32_t i = 0; i < count; ++i)
    devices.push_back({device_kind::cpu, i});
  return devices;
}

std::string why_not_together(const std::vector<device>& devices) {
  for (const auto& one : devices)
    if (one.kind != devices.front().kind)
      return to_string(devices.front()) + " and " + to_string(one)
             + " cannot be used together; name devices of one kind";
  return {};
}

} // namespace troupe
