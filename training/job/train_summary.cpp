#include "troupe/training/job/train_summary.hpp"

#include "troupe/actors/core/version.hpp"
#include "troupe/training/support/atomic_file.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

namespace troupe {

namespace {

using json = nlohmann::ordered_json;

json number(double x) {
  return std::isfinite(x) ? json(x) : json();
}

std::string name_of(fit_end x) {
  switch (x) {
    case fit_end::done:
      return "done";
    case fit_end::stopped_early:
      return "stopped_early";
    case fit_end::max_steps:
      return "max_steps";
    case fit_end::left:
      return "left";
    case fit_end::interrupted:
      break;
  }
  return "interrupted";
}

double train_loss(const history& x) {
  return x.epochs.empty() ? epoch_record::none : x.epochs.back().loss;
}

/// Adds a member for each metric, with a prefix before the name.
void add_metrics(json& object, const std::string& prefix,
                 const std::vector<metric_value>& metrics) {
  for (const auto& one : metrics)
    object[prefix + one.name] = number(one.value);
}

json to_json(const epoch_record& record) {
  json object{{"epoch", record.epoch},
              {"examples", record.examples},
              {"seconds", number(record.seconds)},
              {"learning_rate", number(record.learning_rate)},
              {"loss", number(record.loss)}};
  add_metrics(object, "", record.metrics);
  object["test_loss"] = number(record.validation_loss);
  add_metrics(object, "test_", record.validation_metrics);
  return object;
}

double seconds(const history& x) {
  double sum = 0;
  for (const auto& one : x.epochs)
    sum += one.seconds;
  return sum;
}

/// Returns the learning rate as the user gave it: 0.001, not the nearest float.
double learning_rate(const train_config& x) {
  for (const auto& one : x.rule().numbers())
    if (one.name == "learning_rate")
      return one.value;
  return 0;
}

} // namespace

std::uint64_t train_summary::examples() const {
  std::uint64_t sum = 0;
  for (const auto& one : result.epochs)
    sum += one.examples;
  return sum;
}

double train_summary::examples_per_second() const {
  const auto in = seconds(result);
  std::uint64_t timed = 0;
  for (const auto& one : result.epochs)
    timed += one.seconds > 0 ? one.examples : 0;
  return in > 0 ? static_cast<double>(timed) / in : 0;
}

std::string to_json_text(const train_summary& summary) {
  auto epochs = json::array();
  for (const auto& record : summary.result.epochs)
    epochs.push_back(to_json(record));
  json object{{"version", version},
              {"end", name_of(summary.result.end)},
              {"model", summary.config.model},
              {"data", summary.config.data},
              {"strategy", summary.config.strategy},
              {"devices", summary.config.devices},
              {"replicas", summary.config.replicas},
              {"workers", summary.config.workers},
              {"transport", summary.transport},
              {"threads", summary.config.threads},
              {"batch", summary.config.batch},
              {"loss", summary.config.loss},
              {"precision", models::to_string(summary.config.precision)},
              {"optimizer", summary.config.optimizer},
              {"learning_rate", learning_rate(summary.config)},
              {"schedule", summary.config.schedule},
              {"seed", summary.config.seed},
              {"steps", summary.steps},
              {"examples", summary.examples()},
              {"seconds", number(seconds(summary.result))},
              {"examples_per_second", number(summary.examples_per_second())},
              {"train_loss", number(train_loss(summary.result))}};
  if (summary.config.servers > 0) {
    object["servers"] = summary.config.servers;
    object["consistency"] = summary.config.consistency;
    if (!summary.config.table_consistency.empty())
      object["table_consistency"] = summary.config.table_consistency;
    object["replication"] = summary.config.replication;
    object["lost_servers"] = summary.lost_servers;
  }
  if (summary.config.replication > 1) {
    object["copies_in_sync"] = summary.copies_in_sync;
  }
  if (summary.staleness.gradients > 0) {
    object["mean_staleness"] = summary.staleness.mean();
    object["largest_staleness"] = summary.staleness.largest;
  }
  if (!summary.result.epochs.empty())
    add_metrics(object, "train_", summary.result.epochs.back().metrics);
  object["test_loss"] = number(summary.test.loss);
  add_metrics(object, "test_", summary.test.metrics);
  object["weights_sha256"] = summary.weights_sha256;
  object["epochs"] = std::move(epochs);
  return object.dump(2) + "\n";
}

void write_summary(const train_summary& x, const std::filesystem::path& file) {
  atomic_file out{file};
  out.write(to_json_text(x));
  out.commit();
}

} // namespace troupe
