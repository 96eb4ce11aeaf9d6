#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

enum class device_kind : std::uint8_t { cpu, cuda };
inline constexpr std::size_t device_kinds = 2;

/// Device on which tensors are stored and ops run: "cpu:0", "cpu:1", "cuda:0".
/// All CPU devices share the processor; each stands for the thread of one
/// replica.
struct device {
  device_kind kind = device_kind::cpu;
  std::uint32_t index = 0;

  friend auto operator<=>(const device&, const device&) = default;
};

/// Formats a device as "cpu:0".
std::string to_string(const device& x);

/// Parses a name such as "cpu:0" or "cuda:1"; "cpu" means "cpu:0", and "gpu"
/// means "cuda".
/// @errors throws std::invalid_argument that names the text and the valid
///         names, also for a CUDA device that does not exist.
device parse_device(std::string_view text);

} // namespace troupe
