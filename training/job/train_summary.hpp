#pragma once

#include "troupe/training/job/job.hpp"
#include "troupe/training/loop/history.hpp"

#include <filesystem>
#include <string>

namespace troupe {

/// The figures of a run, as `troupe train --summary` writes them.
struct train_summary {
  settled_job job;
  history done;
  std::uint64_t steps = 0;
  evaluation test{}; ///< With the weights at the end.
  std::string weights_sha256{};
  std::string transport = "none"; ///< As `strategy::transport` says.

  std::uint64_t examples() const;
  /// Over the complete epochs, validation not counted.
  double examples_per_second() const;
};

/// As JSON; docs/formats.md lists the members.
std::string to_json_text(const train_summary& x);

/// @errors throws std::runtime_error with a sentence; the file appears complete
///         or not at all.
void write_summary(const train_summary& x, const std::filesystem::path& file);

} // namespace troupe
