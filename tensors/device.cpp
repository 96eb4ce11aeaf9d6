#include "troupe/tensors/device.hpp"

#include "troupe/tensors/device_backend.hpp"

#include <charconv>
#include <optional>
#include <stdexcept>

namespace troupe {

namespace {

constexpr std::string_view cpu_names = "cpu:0, cpu:1, ...";

/// Parses the number after the colon. None: it is no number of a device.
std::optional<std::uint32_t> parse_index(std::string_view digits) {
  std::uint32_t index = 0;
  const auto* const last = digits.data() + digits.size();
  const auto [end, error] = std::from_chars(digits.data(), last, index);
  if (error != std::errc{} || end != last || index > 65'535)
    return std::nullopt;
  return index;
}

/// Says why there is no CUDA device with this number. Empty: there is one.
std::string why_not_cuda(std::uint32_t index) {
  if (const auto why = why_no_cuda_device(); !why.empty())
    return "cannot be used: " + why + ", or name " + std::string{cpu_names};
  const auto count = find_device_backend(device_kind::cuda)->count();
  if (index < count)
    return {};
  const device first{device_kind::cuda, 0}, last{device_kind::cuda, count - 1};
  return "does not exist: there "
         + (count == 1 ? "is 1 CUDA device, " + to_string(first)
                       : "are " + std::to_string(count) + " CUDA devices, "
                           + to_string(first) + " to " + to_string(last))
         + "; CPUs are named " + std::string{cpu_names};
}

} // namespace

std::string to_string(const device& x) {
  return (x.kind == device_kind::cpu ? "cpu:" : "cuda:")
         + std::to_string(x.index);
}

device parse_device(std::string_view text) {
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument("device '" + std::string{text} + "' " + why);
  };
  const auto colon = text.find(':');
  const auto kind = text.substr(0, colon);
  const bool is_cuda = kind == "cuda" || kind == "gpu";
  if (!is_cuda && kind != "cpu")
    refuse("is unknown; devices are named " + std::string{cpu_names}
           + ", or cuda:0, cuda:1, ...");
  device out;
  if (is_cuda)
    out.kind = device_kind::cuda;
  if (colon != std::string_view::npos) {
    const auto index = parse_index(text.substr(colon + 1));
    if (!index)
      refuse("has no number from 0 to 65535; devices are named "
             + std::string{is_cuda ? "cuda:0, cuda:1, ..." : cpu_names});
    out.index = index.value_or(0);
  }
  if (is_cuda)
    if (const auto why = why_not_cuda(out.index); !why.empty())
      refuse(why);
  return out;
}

} // namespace troupe
