#pragma once

#include "troupe/actors/faults/fault_plan.hpp"

#include <filesystem>
#include <string>
#include <string_view>

// The JSON form of a fault plan. docs/formats.md has its grammar.

namespace troupe::injection {

/// Writes a plan as JSON. `read_fault_plan` returns an equal plan.
std::string write_fault_plan(const faults& plan);

/// Reads a plan from JSON.
/// @errors throws std::invalid_argument with the path and the value of what is
///         wrong, and with what would do. An unknown key is an error.
faults read_fault_plan(std::string_view text);

/// Reads a plan from a file of at most 1 MiB.
/// @errors throws std::invalid_argument as `read_fault_plan`, after the name of
///         the file, and std::runtime_error if the file cannot be read.
faults load_fault_plan(const std::filesystem::path& file);

/// Reads a plan from a file, and checks that all its faults can occur in a
/// place.
/// @errors throws as `load_fault_plan`. Throws std::invalid_argument with the
///         file, the path and the value if a fault cannot occur there.
faults load_fault_plan(const std::filesystem::path& file,
                       const plan_scope& scope);

} // namespace troupe::injection
