#pragma once

namespace troupe {

/// Version of this library and of the `troupe` command, such as "0.1.0".
extern const char* const version;

} // namespace troupe
