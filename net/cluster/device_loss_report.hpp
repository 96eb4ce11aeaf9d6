#pragma once

namespace troupe::net {

/// Line of a `launcher_link` to the launcher: as `left`, because a device of
/// the process is lost. A process that is started again in its place may be
/// able to use the device.
inline constexpr const char* device_lost_line = "device lost";

/// Reports to the launcher of this process that it has left its job, because a
/// device is lost. No effect if no launcher has started it. Does not block.
void report_lost_device() noexcept;

} // namespace troupe::net
