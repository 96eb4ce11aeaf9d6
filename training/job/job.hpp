#pragma once

#include "troupe/models/precision.hpp"
#include "troupe/strategies/parameter_server/consistency.hpp"
#include "troupe/tensors/optim/schedules.hpp"
#include "troupe/tensors/optim/update_rules.hpp"
#include "troupe/training/loop/options/fit_options.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// Maximum values of the options. The minimum of each option is 1, but that of
/// --audit-steps is 0.
struct train_option_limits {
  static constexpr std::uint64_t epochs = std::uint64_t{1} << 40;
  static constexpr std::uint64_t batch = std::uint64_t{1} << 24;
  static constexpr std::uint64_t patience = epochs;
  static constexpr std::uint64_t audit_steps = epochs;
  static constexpr std::uint64_t threads = 1024;
  static constexpr std::uint64_t replicas = 4096;
  static constexpr std::uint64_t workers = 128;
  static constexpr std::uint64_t servers = 128;
};

/// The options of a training run, as a user gives them to `troupe train`. None:
/// the option was not given.
struct train_options {
  std::optional<std::string> model{}, data{};
  std::optional<std::string> loss{};
  std::optional<std::string> precision{};
  std::optional<std::int64_t> epochs{}, batch{};
  std::optional<std::string> optimizer{};
  std::optional<double> learning_rate{};
  std::optional<std::string> schedule{};
  std::optional<std::int64_t> patience{};
  std::optional<std::string> monitor{};
  std::optional<std::string> on_nan{};
  std::optional<std::int64_t> audit_steps{};
  std::optional<std::string> on_deviation{};
  std::optional<std::uint64_t> seed{};
  std::optional<std::int64_t> threads{};
  std::optional<std::string> strategy{};
  std::optional<std::vector<std::string>> devices{};
  std::optional<std::int64_t> replicas{};
  std::optional<std::vector<std::int64_t>> replica_shares{};
  std::optional<std::int64_t> workers{};
  std::optional<std::string> transport{};
  std::optional<std::string> collectives{};
  std::optional<std::string> graph{};
  std::optional<std::int64_t> servers{};
  std::optional<std::string> consistency{};
  std::optional<std::string> table_consistency{};
  std::optional<std::int64_t> replication{};
  /// Columns of the table on which a saved model was trained: those of the
  /// inputs in their order, and the labels. No option of a command line.
  std::optional<std::vector<std::string>> columns{}, labels{};
  /// A run that is resumed may have another number of replicas, although its
  /// weights then have other bits. It is no option of the run that is saved.
  bool other_replicas = false;

  friend bool operator==(const train_options&, const train_options&) = default;
};

/// A checked configuration in which every option has a value.
struct train_config {
  std::string model, data, loss, optimizer, schedule, strategy;
  /// Columns of a table, by name. Empty: those that `data` says, in the order
  /// of the table.
  std::vector<std::string> columns, labels;
  /// Devices of each worker, or several CUDA devices that are divided among the
  /// workers, in the order of the list.
  std::vector<std::string> devices;
  std::string transport = "auto";   ///< auto, shm, tcp or tls.
  std::string collectives = "auto"; ///< auto, host or nccl.
  std::uint64_t epochs = 0, batch = 0;
  int threads = 1;
  std::uint32_t replicas = 1; ///< Replicas of all workers.
  /// Relative sizes of the replicas' parts of a batch. Empty: equal.
  std::vector<std::uint32_t> replica_shares;
  std::uint32_t workers = 1; ///< Number of worker processes.
  /// Number of parameter servers. Zero: another strategy has none.
  std::uint32_t servers = 0;
  /// Consistency of parameter servers: async, ssp:S, sync or sync-backup:B.
  std::string consistency;
  /// Consistency of the tables: async or ssp:S. Empty: they have `consistency`.
  std::string table_consistency;
  std::uint32_t replication = 1; ///< Copies of each parameter server.
  /// Patience of early stopping, in epochs. Zero: no early stopping.
  std::uint64_t patience = 0;
  /// What early stopping evaluates (`early_stopping::monitor`).
  std::string monitor = monitored_metric::validation_loss;
  std::uint64_t seed = 1;
  double learning_rate = 0;
  models::precision precision = models::precision::float32;
  troupe::graph_capture graph = troupe::graph_capture::off;
  troupe::on_nan on_nan = troupe::on_nan::stop;
  std::uint64_t audit_steps = 100; ///< Zero: no audits.
  troupe::on_deviation on_deviation = troupe::on_deviation::stop;

  update_rule rule() const;

  /// Returns the devices of one worker. @pre `worker` is below `workers`.
  std::vector<std::string> devices_of(std::size_t worker) const;

  /// @pre the strategy has parameter servers.
  parameter_server::consistency consistency_rule() const;

  /// None: the tables have `consistency_rule`.
  std::optional<parameter_server::consistency> table_consistency_rule() const;

  /// Returns the number of replicas that divide each batch: all of them, or
  /// one with parameter servers whose consistency is async or ssp.
  std::uint32_t replicas_of_batch() const;

  /// @param steps number of steps of the whole run. A cosine schedule has this
  ///        length if the user did not set its `steps`.
  troupe::schedule learning_rate_schedule(std::uint64_t steps) const;

  /// Returns true if the learning rate schedule depends on the number of
  /// epochs.
  bool schedule_depends_on_epochs() const;
};

/// Fills in the defaults. If no strategy is given, the other options imply it.
/// Servers or a consistency imply parameter_server, and workers alone
/// multi_worker_mirrored. Else several devices imply mirrored, and several
/// replicas or one named device one_device.
/// @errors throws std::invalid_argument if a value is out of range or unknown,
///         or contradicts another option. The error names the option, the value
///         and the remedy.
train_config resolve_options(const train_options& options);

/// Returns options in which every value is given. A version of Troupe with
/// other defaults then gets the same configuration from them.
train_options to_options(const train_config& config);

} // namespace troupe
