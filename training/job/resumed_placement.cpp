#include "troupe/training/job/resumed_placement.hpp"

#include "troupe/training/job/job_placement.hpp"
#include "troupe/training/job/job_resolution.hpp"

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

namespace troupe {

namespace {

using parameter_server::consistency_kind;

constexpr auto with_servers = "parameter_server";

/// Returns the number of replicas if none is given. None: that of the workers.
std::optional<std::int64_t> default_replicas(const train_options& options,
                                             const train_config& saved) {
  if (implied_strategy(options) == with_servers)
    switch (parse_consistency(options.consistency.value_or("async")).kind) {
      case consistency_kind::asynchronous:
        return std::nullopt;
      case consistency_kind::bounded:
        return saved.replicas;
      case consistency_kind::synchronous:
        break;
    }
  return saved.replicas_of_batch();
}

/// True if the order in which workers compute has no effect on the parameters,
/// the tables aside if they have a consistency of their own.
bool is_independent_of_order(const train_config& x) {
  if (x.servers == 0)
    return true;
  const auto rule = x.consistency_rule();
  return rule.kind == consistency_kind::synchronous
           ? rule.backup_workers == 0
           : rule.kind == consistency_kind::bounded && x.replicas == 1;
}

/// True if the weights do not depend on the order in which workers compute.
bool has_determined_weights(const train_config& x) {
  return is_independent_of_order(x)
         && (x.table_consistency.empty() || x.replicas == 1);
}

/// Says why a run whose weights depend on that order is rejected.
std::string undetermined(const std::string& remedy) {
  return "the run to resume ends with the same weights whatever its workers "
         "do, and would not; "
         + remedy;
}

} // namespace

bool stays_on_servers(const train_options& saved,
                      const train_options& changes) {
  return saved.strategy == with_servers && !changes.devices
         && changes.strategy.value_or(with_servers) == with_servers;
}

void change_placement(train_options& out, const train_options& saved,
                      const train_options& changes) {
  const bool stays = stays_on_servers(saved, changes);
  const auto change = [&](auto train_options::*option) {
    if (changes.*option || !stays)
      out.*option = changes.*option;
  };
  change(&train_options::strategy);
  change(&train_options::workers);
  change(&train_options::servers);
  change(&train_options::consistency);
  // That of the tables depends on that of the other parameters.
  if (changes.consistency)
    out.table_consistency = changes.table_consistency;
  else
    change(&train_options::table_consistency);
  change(&train_options::replication);
  out.devices = changes.devices;
  out.transport = changes.transport;
  out.collectives = changes.collectives;
  out.graph = changes.graph;
  const auto was = resolve_options(saved);
  out.replicas = changes.replicas;
  out.other_replicas = false;
  if (!changes.replicas && !changes.devices && !changes.other_replicas)
    out.replicas = default_replicas(out, was);
  const auto now = resolve_options(out);
  const auto replicas = was.replicas_of_batch();
  const bool is_undetermined =
    has_determined_weights(was) && !has_determined_weights(now);
  if (is_undetermined && !is_independent_of_order(now))
    reject_option("--consistency", now.consistency, undetermined("give sync"));
  const bool has_servers = was.servers > 0 || now.servers > 0;
  if (changes.other_replicas && has_servers)
    throw std::invalid_argument(
      "--other-replicas: a run with parameter servers is resumed with the same "
      "number of replicas; leave it out");
  if (now.replicas_of_batch() != replicas && !changes.other_replicas)
    throw std::invalid_argument(
      "--resume: the run had " + std::to_string(replicas)
      + (replicas == 1 ? " replica" : " replicas") + ", and would have "
      + std::to_string(now.replicas_of_batch()) + "; give a strategy with "
      + std::to_string(replicas)
      + (has_servers ? ""
                     : ", or --other-replicas if the weights may have other "
                       "bits"));
  if (is_undetermined) // only --table-consistency can be the reason
    reject_option("--table-consistency", now.table_consistency,
                  undetermined("leave it out"));
}

} // namespace troupe
