#pragma once

#include <filesystem>
#include <string_view>

namespace troupe::net {

/// Users that may read the file.
enum class file_access { owner, everyone };

/// Creates a file that must not exist yet, and writes it completely or not at
/// all. The mode is 0600, or 0644 less the umask.
/// @errors throws std::runtime_error with a sentence for people. An existing
///         file or link of that name is not changed.
void write_new_file(const std::filesystem::path& file, std::string_view text,
                    file_access access);

} // namespace troupe::net
