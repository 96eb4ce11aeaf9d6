#pragma once

namespace troupe {

/// Of this library and its tool: "0.1.0".
extern const char* const version;

} // namespace troupe
