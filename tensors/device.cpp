#include "troupe/tensors/device.hpp"

#include <charconv>
#include <stdexcept>

namespace troupe {

std::string to_string(const device& x) {
  return (x.kind == device_kind::cpu ? "cpu:" : "cuda:")
         + std::to_string(x.index);
}

device parse_device(std::string_view text) {
  const auto refuse = [&](const std::string& why) -> device {
    throw std::invalid_argument("device '" + std::string{text} + "' " + why);
  };
  const auto colon = text.find(':');
  const auto kind = text.substr(0, colon);
  if (kind == "cuda" || kind == "gpu")
    return refuse("cannot be used: Troupe runs on CPUs only; devices are named "
                  "cpu:0, cpu:1, ...");
  if (kind != "cpu")
    return refuse("is unknown; devices are named cpu:0, cpu:1, ...");
  device out;
  if (colon != std::string_view::npos) {
    const auto number = text.substr(colon + 1);
    const auto [end, error] =
      std::from_chars(number.data(), number.data() + number.size(), out.index);
    if (error != std::errc{} || end != number.data() + number.size()
        || out.index > 65'535)
      return refuse("has no number; devices are named cpu:0, cpu:1, ...");
  }
  return out;
}

} // namespace troupe
