#pragma once

#include "troupe/tensors/schedules.hpp"
#include "troupe/tensors/update_rules.hpp"
#include "troupe/training/loop/fit.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// The largest numbers that a job's options take; the least is 1.
struct job_limits {
  static constexpr std::uint64_t epochs = std::uint64_t{1} << 40;
  static constexpr std::uint64_t batch = std::uint64_t{1} << 24;
  static constexpr std::uint64_t patience = epochs;
  static constexpr std::uint64_t threads = 1024;
  static constexpr std::uint64_t replicas = 4096;
  static constexpr std::uint64_t workers = 128;
};

/// A training run as the tool's options describe it. What has no value was not
/// given.
struct job {
  std::optional<std::string> model{}, data{};
  std::optional<std::int64_t> epochs{}, batch{};
  std::optional<std::string> optimizer{};
  std::optional<double> learning_rate{};
  std::optional<std::string> schedule{};
  std::optional<std::int64_t> patience{};
  std::optional<std::string> on_nan{};
  std::optional<std::uint64_t> seed{};
  std::optional<std::int64_t> threads{};
  std::optional<std::string> strategy{};
  std::optional<std::vector<std::string>> devices{};
  std::optional<std::int64_t> replicas{};
  std::optional<std::int64_t> workers{};
  std::optional<std::string> transport{};

  friend bool operator==(const job&, const job&) = default;
};

/// A job in which nothing is left open, checked.
struct settled_job {
  std::string model, data, optimizer, schedule, strategy;
  std::vector<std::string> devices; ///< Of each worker.
  std::string transport = "auto";   ///< auto, shm, tcp or tls.
  std::uint64_t epochs = 0, batch = 0;
  int threads = 1;
  std::uint32_t replicas = 1; ///< Of all workers.
  std::uint32_t workers = 1;  ///< Processes.
  std::uint64_t patience = 0; ///< Of early stopping; 0: none.
  std::uint64_t seed = 1;
  double learning_rate = 0;
  troupe::on_nan on_nan = troupe::on_nan::stop;

  update_rule rule() const;

  /// @param steps of the whole job, which a cosine takes unless it says.
  troupe::schedule rates(std::uint64_t steps) const;

  /// Whether it is the number of epochs that says when rates fall.
  bool rates_follow_epochs() const;
};

/// Fills in the defaults, and the strategy that the rest implies: several
/// devices are mirrored, several replicas take turns on one, workers are those
/// of multi_worker_mirrored.
/// @errors throws std::invalid_argument with a sentence that names the option,
///         its value and what would do: out of range, unknown, or contradicting
///         another.
settled_job settle(const job& x);

/// The job in which all that was settled is given, so that other defaults of
/// another Troupe change nothing.
job given_by(const settled_job& x);

/// What was given, as a text for a saved model; and back.
/// @errors `read_job` throws std::runtime_error if it is no such text.
std::string write_job(const job& x);
job read_job(const std::string& text);

/// A job that was saved, with what is given anew on top.
/// @errors throws std::invalid_argument for what would end with other weights
///         than the undisturbed run: all but --epochs, --strategy, --devices,
///         --workers (for as many replicas), --transport, --on-nan.
job resumed(const job& saved, const job& given);

} // namespace troupe
