#pragma once

#include <filesystem>
#include <string_view>

namespace troupe::net {

enum class readers { owner, everybody };

/// Writes a file that does not exist yet, whole or not at all; mode 0600, or
/// 0644 as the umask has it.
/// @errors throws std::runtime_error with a sentence; a file of that name, or a
///         link, is left as it is.
void write_new_file(const std::filesystem::path& file, std::string_view text,
                    readers who);

} // namespace troupe::net
