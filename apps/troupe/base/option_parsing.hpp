#pragma once

#include <cstdint>
#include <string>
#include <vector>

// Parsers of option values. Each throws std::invalid_argument with the option,
// the value, and a valid example or range.

/// Returns a number from `min` to `max`.
std::uint64_t parse_integer(const std::string& option, const std::string& text,
                            std::uint64_t min, std::uint64_t max);

double parse_real(const std::string& option, const std::string& text);

/// Returns a file name that is not empty.
std::string parse_file_name(const std::string& option, const std::string& text);

/// Returns the names in a list that commas separate. The error text quotes
/// `example`, a valid list.
std::vector<std::string> parse_list(const std::string& option,
                                    const std::string& text,
                                    const std::string& example);

/// Requires that two options name different files. They may name the same
/// device or pipe.
void require_distinct(const std::string& option, const std::string& file,
                      const std::string& other_option,
                      const std::string& other_file);
