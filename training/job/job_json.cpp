#include "troupe/training/job/job_json.hpp"

#include "troupe/net/base/log_rate_limiter.hpp"
#include "troupe/training/job/job.hpp"
#include "troupe/training/job/resumed_placement.hpp"

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

using json = nlohmann::ordered_json;

/// Calls `fn(name, members...)` for each option. Each object of `option_sets`
/// has a data member for the option; `members` are these data members, in the
/// order of the objects.
template <class F, class... Jobs>
void each_option(F fn, Jobs&... option_sets) {
  fn("model", option_sets.model...);
  fn("data", option_sets.data...);
  fn("columns", option_sets.columns...);
  fn("labels", option_sets.labels...);
  fn("loss", option_sets.loss...);
  fn("precision", option_sets.precision...);
  fn("epochs", option_sets.epochs...);
  fn("batch", option_sets.batch...);
  fn("optimizer", option_sets.optimizer...);
  fn("learning-rate", option_sets.learning_rate...);
  fn("schedule", option_sets.schedule...);
  fn("seed", option_sets.seed...);
  fn("threads", option_sets.threads...);
  fn("strategy", option_sets.strategy...);
  fn("devices", option_sets.devices...);
  fn("replicas", option_sets.replicas...);
  fn("replica-shares", option_sets.replica_shares...);
  fn("workers", option_sets.workers...);
  fn("transport", option_sets.transport...);
  fn("collectives", option_sets.collectives...);
  fn("graph", option_sets.graph...);
  fn("servers", option_sets.servers...);
  fn("consistency", option_sets.consistency...);
  fn("table-consistency", option_sets.table_consistency...);
  fn("replication", option_sets.replication...);
  fn("patience", option_sets.patience...);
  fn("monitor", option_sets.monitor...);
  fn("on-nan", option_sets.on_nan...);
  fn("audit-steps", option_sets.audit_steps...);
  fn("on-deviation", option_sets.on_deviation...);
}

/// Returns JSON as text, and replaces invalid UTF-8 in it.
std::string to_text(const json& x) {
  return x.dump(-1, ' ', false, json::error_handler_t::replace);
}

template <class T>
std::string printed(const std::optional<T>& x) {
  return x ? net::printable(to_text(*x)) : "the default";
}

[[noreturn]] void throw_no_options() {
  throw std::runtime_error(
    "the saved model contains no options of a run; it was "
    "not saved by `troupe train`");
}

/// Reads a value of type `T`. If `T` is an integer type, throws for a number
/// that is no integer or out of the range of `T`.
template <class T>
T read_value(const json& value) {
  if constexpr (std::is_integral_v<T>) {
    const bool fits = value.is_number_unsigned()
                        ? std::in_range<T>(value.get<std::uint64_t>())
                        : value.is_number_integer()
                            && std::in_range<T>(value.get<std::int64_t>());
    if (!fits)
      throw_no_options();
  }
  return value.get<T>();
}

template <>
std::vector<std::int64_t> read_value(const json& value) {
  if (!value.is_array())
    throw_no_options();
  std::vector<std::int64_t> out;
  for (const auto& one : value)
    out.push_back(read_value<std::int64_t>(one));
  return out;
}

/// Returns true if the option says what to do in the case of a fault.
bool concerns_faults(std::string_view option) {
  return option == "on-nan" || option == "audit-steps"
         || option == "on-deviation";
}

/// Returns true if a change of the option does not change the weights.
bool may_change_on_resume(std::string_view option) {
  return concerns_faults(option) || option == "epochs" || option == "strategy"
         || option == "devices" || option == "replicas" || option == "workers"
         || option == "transport" || option == "collectives"
         || option == "graph" || option == "servers" || option == "consistency"
         || option == "table-consistency" || option == "replication";
}

} // namespace

std::string write_train_options(const train_options& options) {
  auto object = json::object();
  each_option(
    [&](const char* name, const auto& value) {
      if (value)
        object[name] = *value;
    },
    options);
  return to_text(object);
}

train_options read_train_options(const std::string& text) try {
  const auto object = json::parse(text);
  // Throws if the text is not an object.
  (void)object.get_ref<const json::object_t&>();
  train_options options;
  each_option(
    [&](const char* name, auto& value) {
      if (object.contains(name))
        value = read_value<typename std::decay_t<decltype(value)>::value_type>(
          object.at(name));
    },
    options);
  return options;
} catch (const json::exception&) {
  throw_no_options();
}

train_options merge_for_resume(const train_options& saved,
                               const train_options& changes) {
  auto out = saved;
  if (changes.transport && !changes.strategy && !changes.workers)
    out.transport = changes.transport;
  if (changes.collectives && !changes.strategy && !changes.workers)
    out.collectives = changes.collectives;
  if (changes.strategy || changes.devices || changes.replicas || changes.workers
      || changes.servers || changes.consistency || changes.table_consistency
      || changes.replication)
    change_placement(out, saved, changes);
  each_option(
    [](const char* name, auto& target, const auto& saved_value,
       const auto& changed_value) {
      if (!changed_value || changed_value == saved_value)
        return;
      if (!may_change_on_resume(name))
        throw std::invalid_argument(
          "--" + std::string{name} + " " + printed(changed_value)
          + ": the run to resume has " + printed(saved_value)
          + "; leave the option out");
      const std::string_view option = name;
      if (option == "epochs" || option == "graph" || concerns_faults(option))
        target = changed_value;
    },
    out, saved, changes);
  if (out.epochs != saved.epochs
      && resolve_options(saved).schedule_depends_on_epochs())
    throw std::invalid_argument(
      "--epochs " + printed(out.epochs) + ": the run to resume has "
      + printed(saved.epochs)
      + ", and its cosine schedule ends with them; leave the option out, or "
        "begin a new run with its weights (--init)");
  return out;
}

} // namespace troupe
