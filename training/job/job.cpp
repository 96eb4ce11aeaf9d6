#include "troupe/models/detail/names.hpp"
#include "troupe/models/losses.hpp"
#include "troupe/net/base/log_rate_limiter.hpp"
#include "troupe/training/job/data_source.hpp"
#include "troupe/training/job/job_placement.hpp"
#include "troupe/training/job/job_resolution.hpp"
#include "troupe/training/strategies/replica/local_batches.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>

namespace troupe {

void reject_option(const std::string& option, const std::string& value,
                   const std::string& why) {
  throw std::invalid_argument(option + " " + net::printable(value) + ": "
                              + net::printable(why));
}

void check_name(const std::string& option, const std::string& value,
                std::span<const std::string> names) {
  if (std::ranges::find(names, value) != names.end())
    return;
  std::string list;
  for (const auto& name : names)
    list += (list.empty() ? "" : &name == &names.back() ? " or " : ", ") + name;
  const auto meant = models::detail::guess(value, names);
  reject_option(option, "\"" + value + "\"",
                (meant.empty() ? "" : meant.substr(1) + " ") + "give " + list);
}

std::uint64_t check_positive(const char* option, std::int64_t value,
                             std::uint64_t max) {
  if (value < 1 || static_cast<std::uint64_t>(value) > max)
    reject_option(option, std::to_string(value),
                  "give a number from 1 to " + std::to_string(max));
  return static_cast<std::uint64_t>(value);
}

namespace {

/// The name and the numbers in a text such as "sgd:momentum=0.9,nesterov=1".
struct named_setting {
  std::string name;
  hyperparameters numbers;
};

named_setting parse_setting(const char* option, const std::string& text) {
  const auto colon = text.find(':');
  named_setting out{text.substr(0, colon), {}};
  if (colon == text.npos)
    return out;
  std::istringstream rest{text.substr(colon + 1)};
  for (std::string assignment; std::getline(rest, assignment, ',');) {
    const auto equals = assignment.find('=');
    double value = 0;
    const auto* last = assignment.data() + assignment.size();
    const auto first =
      equals == assignment.npos ? assignment.size() : equals + 1;
    const auto [end, error] =
      std::from_chars(assignment.data() + first, last, value);
    if (equals == assignment.npos || error != std::errc{} || end != last)
      reject_option(option, text,
                    "\"" + assignment + "\" is not a setting; write " + out.name
                      + ":name=number,name=number");
    out.numbers.push_back({assignment.substr(0, equals), value});
  }
  return out;
}

bool has(const hyperparameters& all, const std::string& name) {
  return std::ranges::find(all, name, &hyperparameter::name) != all.end();
}

/// Adds a number if `to` has no number with this name.
void add_default(hyperparameters& to, const char* name, double value) {
  if (!has(to, name))
    to.push_back({name, value});
}

template <class F>
auto with_option_name(const char* option, const std::string& value, F fn) {
  try {
    return fn();
  } catch (const std::invalid_argument& e) {
    reject_option(option, value, e.what());
  }
}

} // namespace

update_rule train_config::rule() const {
  auto x = parse_setting("--optimizer", optimizer);
  check_name("--optimizer", x.name, update_rule_names());
  return with_option_name("--optimizer", optimizer, [&] {
    if (learning_rate > 0)
      add_default(x.numbers, "learning_rate", learning_rate);
    return update_rule{x.name, x.numbers};
  });
}

schedule train_config::learning_rate_schedule(std::uint64_t steps) const {
  const auto rate = static_cast<double>(rule().learning_rate());
  auto x = parse_setting("--schedule", schedule);
  check_name("--schedule", x.name, schedule_names());
  return with_option_name("--schedule", schedule, [&] {
    add_default(x.numbers, "learning_rate", rate);
    if (x.name == "cosine")
      add_default(x.numbers, "steps", static_cast<double>(steps));
    return troupe::schedule{x.name, x.numbers};
  });
}

bool train_config::schedule_depends_on_epochs() const {
  const auto x = parse_setting("--schedule", schedule);
  return x.name == "cosine" && !has(x.numbers, "steps");
}

namespace {

std::vector<std::uint32_t>
checked_shares(const std::vector<std::int64_t>& shares,
               const train_config& config) {
  std::string text;
  for (const auto share : shares)
    text += (text.empty() ? "" : ",") + std::to_string(share);
  if (shares.size() != config.replicas)
    reject_option("--replica-shares", text,
                  "the run has " + std::to_string(config.replicas)
                    + (config.replicas == 1 ? " replica" : " replicas")
                    + "; give one number for each");
  batch_shares out;
  for (const auto share : shares) {
    if (share < 1 || share > max_share)
      reject_option("--replica-shares", text,
                    "give numbers from 1 to " + std::to_string(max_share)
                      + ", as in 3,1");
    out.push_back(static_cast<std::uint32_t>(share));
  }
  for (std::uint32_t r = 0; r < out.size(); ++r)
    if (rows_of_replicas(static_cast<std::int64_t>(config.batch), r, r + 1,
                         config.replicas, out)
          .size()
        == 0)
      reject_option("--replica-shares", text,
                    "a batch of " + std::to_string(config.batch)
                      + " leaves replica " + std::to_string(r)
                      + " without an example; give a larger --batch, or shares "
                        "that differ less");
  return out;
}

void resolve_audits(const train_options& options, train_config& out) {
  const auto steps = options.audit_steps.value_or(100);
  constexpr auto max = train_option_limits::audit_steps;
  if (steps < 0 || static_cast<std::uint64_t>(steps) > max)
    reject_option("--audit-steps", std::to_string(steps),
                  "give a number from 0 to " + std::to_string(max));
  out.audit_steps = static_cast<std::uint64_t>(steps);
  const auto reaction = options.on_deviation.value_or("stop");
  check_name("--on-deviation", reaction,
             std::array<std::string, 2>{"stop", "heal"});
  out.on_deviation =
    reaction == "heal" ? on_deviation::heal : on_deviation::stop;
}

/// The rate of an update rule is a float.
void check_learning_rate(double rate) {
  const auto used = static_cast<float>(rate);
  if (used > 0 && std::isfinite(used))
    return;
  std::ostringstream text;
  text << rate;
  reject_option("--learning-rate", text.str(),
                rate > 0 && std::isfinite(rate)
                  ? "a 32-bit number cannot be as small or as large as this; "
                    "give a number such as 0.001"
                  : "give a number above 0, as in 0.001");
}

models::precision resolve_precision(const train_options& options) {
  const auto name = options.precision.value_or("float32");
  const std::vector<std::string> names{models::precision_names.begin(),
                                       models::precision_names.end()};
  check_name("--precision", name, names);
  return *models::find_precision(name);
}

/// @pre `out.devices` is set.
void check_precision(const train_config& out) {
  if (out.precision == models::precision::tf32 && !out.devices.empty()
      && parse_device(out.devices.front()).kind == device_kind::cpu)
    reject_option("--precision", "tf32",
                  "only GPUs compute in TF32, and the devices are CPUs; give "
                  "float32 or bf16");
}

/// @pre `out.devices` and `out.strategy` are set.
graph_capture resolve_graph(const train_options& options,
                            const train_config& out) {
  const auto name = options.graph.value_or("off");
  check_name("--graph", name, std::array<std::string, 2>{"on", "off"});
  if (name == "off")
    return graph_capture::off;
  if (out.devices.empty()
      || parse_device(out.devices.front()).kind == device_kind::cpu)
    reject_option("--graph", name,
                  "only GPUs have graphs, and the devices are CPUs; leave it "
                  "out, or give --devices gpu:0");
  if (out.strategy == "multi_worker_mirrored"
      || out.strategy == "parameter_server" || out.devices.size() > 1)
    reject_option("--graph", name,
                  "the steps of several processes or devices cannot be "
                  "captured yet; leave it out");
  return graph_capture::on;
}

} // namespace

train_config resolve_options(const train_options& options) {
  train_config out;
  out.model = options.model.value_or("mlp");
  out.data = options.data.value_or("digits");
  out.columns = options.columns.value_or(std::vector<std::string>{});
  out.labels = options.labels.value_or(std::vector<std::string>{});
  out.loss = options.loss.value_or(std::string{default_loss(out.data)});
  with_option_name("--loss", out.loss,
                   [&] { return &models::find_loss(out.loss); });
  out.precision = resolve_precision(options);
  out.optimizer = options.optimizer.value_or("adam");
  out.schedule = options.schedule.value_or("constant");
  out.epochs = check_positive("--epochs", options.epochs.value_or(5),
                              train_option_limits::epochs);
  out.batch = check_positive("--batch", options.batch.value_or(64),
                             train_option_limits::batch);
  out.threads = static_cast<int>(check_positive(
    "--threads", options.threads.value_or(1), train_option_limits::threads));
  if (options.patience)
    out.patience = check_positive("--patience", *options.patience,
                                  train_option_limits::patience);
  if (options.monitor && !options.patience)
    reject_option("--monitor", *options.monitor,
                  "nothing is stopped early; give --patience too");
  out.monitor = options.monitor.value_or(out.monitor);
  out.seed = options.seed.value_or(1);
  if (options.learning_rate)
    check_learning_rate(*options.learning_rate);
  if (options.learning_rate
      && has(parse_setting("--optimizer", out.optimizer).numbers,
             "learning_rate"))
    reject_option("--optimizer", out.optimizer,
                  "--learning-rate is given too; leave one of the two out");
  out.learning_rate = options.learning_rate.value_or(0);
  const auto nan = options.on_nan.value_or("stop");
  check_name("--on-nan", nan, std::array<std::string, 2>{"stop", "skip"});
  out.on_nan = nan == "skip" ? on_nan::skip : on_nan::stop;
  resolve_audits(options, out);
  resolve_placement(options, out);
  check_precision(out);
  out.graph = resolve_graph(options, out);
  if (out.batch < out.replicas_of_batch())
    reject_option("--batch", std::to_string(out.batch),
                  "it is divided over " + std::to_string(out.replicas)
                    + " replicas; give at least "
                    + std::to_string(out.replicas));
  if (options.replica_shares)
    out.replica_shares = checked_shares(*options.replica_shares, out);
  out.learning_rate_schedule(std::uint64_t{1}
                             << 40); // Checks the schedule and the optimizer.
  return out;
}

train_options to_options(const train_config& config) {
  train_options out;
  out.model = config.model;
  out.data = config.data;
  if (!config.columns.empty())
    out.columns = config.columns;
  if (!config.labels.empty())
    out.labels = config.labels;
  out.loss = config.loss;
  out.precision = models::to_string(config.precision);
  out.optimizer = config.optimizer;
  out.schedule = config.schedule;
  out.strategy = config.strategy;
  out.graph = config.graph == graph_capture::on ? "on" : "off";
  out.on_nan = config.on_nan == on_nan::skip ? "skip" : "stop";
  out.audit_steps = static_cast<std::int64_t>(config.audit_steps);
  out.on_deviation =
    config.on_deviation == on_deviation::heal ? "heal" : "stop";
  out.devices = config.devices;
  out.epochs = static_cast<std::int64_t>(config.epochs);
  out.batch = static_cast<std::int64_t>(config.batch);
  out.threads = config.threads;
  out.replicas = config.replicas;
  if (!config.replica_shares.empty())
    out.replica_shares.emplace(config.replica_shares.begin(),
                               config.replica_shares.end());
  if (config.strategy == "multi_worker_mirrored") {
    out.workers = config.workers;
    out.transport = config.transport;
    out.collectives = config.collectives;
  }
  if (config.strategy == "mirrored" && config.collectives != "auto")
    out.collectives = config.collectives;
  if (config.servers > 0) {
    out.workers = config.workers;
    out.servers = config.servers;
    out.consistency = config.consistency;
    if (!config.table_consistency.empty())
      out.table_consistency = config.table_consistency;
    out.replication = config.replication;
  }
  if (config.patience > 0) {
    out.patience = static_cast<std::int64_t>(config.patience);
    out.monitor = config.monitor;
  }
  out.seed = config.seed;
  if (config.learning_rate > 0)
    out.learning_rate = config.learning_rate;
  return out;
}

} // namespace troupe
