#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

enum class device_kind : std::uint8_t { cpu, cuda };
inline constexpr std::size_t device_kinds = 2;

/// Where tensors live and ops run: "cpu:0", "cpu:1", "cuda:0". Several CPU
/// devices share the processor; each is one replica's thread.
struct device {
  device_kind kind = device_kind::cpu;
  std::uint32_t index = 0;

  friend auto operator<=>(const device&, const device&) = default;
};

std::string to_string(const device& x);

/// Reads "cpu:0" (and "cpu" as "cpu:0").
/// @errors throws std::invalid_argument with a sentence that names the text and
///         what would do; a kind that this build cannot run is one too.
device parse_device(std::string_view text);

} // namespace troupe
