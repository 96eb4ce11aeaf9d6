#pragma once

#include <cstddef>
#include <span>

namespace troupe::net {

/// Copies `source` to `target` by vector instructions if the processor has
/// them. For large sizes, `memcpy` uses a string instruction instead. If the
/// target's offset in its page is slightly larger than the source's offset, the
/// string instruction is slow. On some processors it then takes about five
/// times as long as vector instructions.
/// @pre `target` is at least as long as `source`, and they do not overlap.
void copy_large(std::span<const std::byte> source, std::span<std::byte> target);

} // namespace troupe::net
