#pragma once

#include <string>

namespace troupe {

struct fit_position;

/// Encodes a position without its best weights, for other processes of the job.
std::string to_text(const fit_position& position);

/// Decodes the output of `to_text`. @returns false if it is malformed.
bool from_text(const std::string& text, fit_position& position);

} // namespace troupe
