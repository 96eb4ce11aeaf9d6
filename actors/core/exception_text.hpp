#pragma once

#include <exception>
#include <string>

namespace troupe {

/// Returns the text of an exception for other processes and for logs. Memory
/// that is lacking is named in words, because `std::bad_alloc` has no text of
/// its own.
/// @pre `thrown` is not null.
std::string exception_text(const std::exception_ptr& thrown);

} // namespace troupe
