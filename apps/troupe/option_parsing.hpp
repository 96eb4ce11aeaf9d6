#pragma once

#include <cstdint>
#include <string>
#include <vector>

// Options' values, read from what stands on the command line.
// Each throws std::invalid_argument: the option, the value, what would do.

/// @returns a number from `least` to `most`.
std::uint64_t whole_number(const std::string& option, const std::string& text,
                           std::uint64_t least, std::uint64_t most);

double real_number(const std::string& option, const std::string& text);

/// A file's name, which is not empty.
std::string file_name(const std::string& option, const std::string& text);

/// Names with commas between them, such as the `example`.
std::vector<std::string> names(const std::string& option,
                               const std::string& text,
                               const std::string& example);

/// Refuses two options that name one file, unless it is a device or a pipe.
void check_differ(const std::string& option, const std::string& file,
                  const std::string& other, const std::string& other_file);
