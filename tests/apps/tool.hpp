#pragma once

#include "../support/scratch.hpp"
#include "child.hpp"

#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace troupe {

/// Base of tests that run the tool, each in its own directory.
class tool_test : public scratch_test {
protected:
  /// Runs the tool.
  /// @param words arguments, separated by blanks; '' is an empty argument.
  outcome troupe(const std::string& words, child_options options = {}) const;

  /// Runs the tool with --summary and returns the parsed summary.
  nlohmann::json summary_of(const std::string& words) const;

  /// Runs the tool with --summary and returns the hash of the weights.
  std::string weights_of(const std::string& words) const;

  /// Expects the exit code, an error text that contains all texts of
  /// `expected`, no other output, and no new file.
  void expect_rejected(const std::string& words, int code,
                       std::initializer_list<const char*> expected,
                       child_options options = {}) const;
};

} // namespace troupe
