#pragma once

#include <filesystem>
#include <string_view>

namespace troupe::net {

/// Users that may read a new file.
enum class file_access { owner, everyone };

/// Creates a file and writes the text to it. If a write fails, it removes the
/// file. The mode is 0600 for `owner`, and 0644 minus the umask for `everyone`.
/// @errors throws std::runtime_error with an error sentence, also if a file or
///         link of that name exists. That file is not changed.
void write_new_file(const std::filesystem::path& file, std::string_view text,
                    file_access access);

} // namespace troupe::net
