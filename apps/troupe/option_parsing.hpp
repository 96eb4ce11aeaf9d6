#pragma once

#include <cstdint>
#include <string>
#include <vector>

// Parsers of option values. Each throws std::invalid_argument with the option,
// the value, and a valid example or range.

/// @returns a number from `least` to `most`.
std::uint64_t whole_number(const std::string& option, const std::string& text,
                           std::uint64_t least, std::uint64_t most);

double real_number(const std::string& option, const std::string& text);

/// @returns a file name that is not empty.
std::string file_name(const std::string& option, const std::string& text);

/// @returns the names in a list with commas. `example` is a valid list, for the
/// error text.
std::vector<std::string> names(const std::string& option,
                               const std::string& text,
                               const std::string& example);

/// Requires that two options name different files. The same device or pipe is
/// allowed.
void check_differ(const std::string& option, const std::string& file,
                  const std::string& other, const std::string& other_file);
