#pragma once

#include "troupe/strategies/parameter_server/gradient_staleness.hpp"
#include "troupe/training/job/job.hpp"
#include "troupe/training/loop/options/history.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

namespace troupe {

/// The results of a run, as `troupe train --summary` writes them.
struct train_summary {
  train_config config;
  history result;
  std::uint64_t steps = 0;
  evaluation test{}; ///< Evaluation of the final weights.
  std::string weights_sha256{};
  std::string transport = "none"; ///< Value of `strategy::transport`.
  /// Staleness with parameter servers.
  parameter_server::gradient_staleness staleness{};
  /// With copies of parameter servers: copies that were in sync at the end, of
  /// the server that had the fewest.
  std::uint32_t copies_in_sync = 0;
  std::uint64_t lost_servers = 0; ///< Servers that were lost.

  std::uint64_t examples() const;
  /// Returns the throughput over the complete epochs, without validation.
  double examples_per_second() const;
};

/// Returns the summary as JSON; docs/formats.md lists the members.
std::string to_json_text(const train_summary& summary);

/// Writes the summary as JSON. The file appears complete or not at all.
/// @errors throws std::runtime_error that names the file.
void write_summary(const train_summary& x, const std::filesystem::path& file);

} // namespace troupe
