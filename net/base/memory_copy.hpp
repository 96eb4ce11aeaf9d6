#pragma once

#include <cstddef>
#include <span>

namespace troupe::net {

/// Copies `source` to `target` by vector instructions if the processor has
/// them. For large sizes `memcpy` uses a string instruction. On some processors
/// that instruction is about five times slower if the offset of the target in
/// its page is slightly larger than the offset of the source.
/// @pre `target` is at least as long as `source`, and they do not overlap.
void copy_large(std::span<const std::byte> source, std::span<std::byte> target);

} // namespace troupe::net
