#include "troupe/net/base/log_rate_limiter.hpp"
#include "troupe/training/job/job.hpp"

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

using json = nlohmann::ordered_json;

/// Calls `fn(option, member...)` for each option of all the given option sets.
template <class F, class... Jobs>
void each_option(F fn, Jobs&... jobs) {
  fn("model", jobs.model...);
  fn("data", jobs.data...);
  fn("epochs", jobs.epochs...);
  fn("batch", jobs.batch...);
  fn("optimizer", jobs.optimizer...);
  fn("learning-rate", jobs.learning_rate...);
  fn("schedule", jobs.schedule...);
  fn("seed", jobs.seed...);
  fn("threads", jobs.threads...);
  fn("strategy", jobs.strategy...);
  fn("devices", jobs.devices...);
  fn("replicas", jobs.replicas...);
  fn("workers", jobs.workers...);
  fn("transport", jobs.transport...);
  fn("patience", jobs.patience...);
  fn("on-nan", jobs.on_nan...);
}

/// Invalid UTF-8 in texts is replaced.
std::string dumped(const json& x) {
  return x.dump(-1, ' ', false, json::error_handler_t::replace);
}

template <class T>
std::string shown(const std::optional<T>& x) {
  return x ? net::printable(dumped(*x)) : "the default";
}

[[noreturn]] void refuse_text() {
  throw std::runtime_error(
    "the saved model contains no options of a run; it was "
    "not saved by `troupe train`");
}

/// Does not convert integers: rejects a number that does not fit the type.
template <class T>
T taken(const json& from) {
  if constexpr (std::is_integral_v<T>) {
    const bool fits = from.is_number_unsigned()
                        ? std::in_range<T>(from.get<std::uint64_t>())
                        : from.is_number_integer()
                            && std::in_range<T>(from.get<std::int64_t>());
    if (!fits)
      refuse_text();
  }
  return from.get<T>();
}

/// True if a change of the option does not change the weights.
bool may_change(std::string_view option) {
  return option == "epochs" || option == "strategy" || option == "devices"
         || option == "replicas" || option == "workers" || option == "transport"
         || option == "on-nan";
}

} // namespace

std::string write_job(const job& x) {
  auto all = json::object();
  each_option(
    [&](const char* name, const auto& value) {
      if (value)
        all[name] = *value;
    },
    x);
  return dumped(all);
}

job read_job(const std::string& text) try {
  const auto all = json::parse(text);
  // Throws if the text is not an object.
  (void)all.get_ref<const json::object_t&>();
  job x;
  each_option(
    [&](const char* name, auto& value) {
      if (all.contains(name))
        value = taken<typename std::decay_t<decltype(value)>::value_type>(
          all.at(name));
    },
    x);
  return x;
} catch (const json::exception&) {
  refuse_text();
}

job resumed(const job& saved, const job& given) {
  auto out = saved;
  if (given.transport && !given.strategy && !given.workers)
    out.transport = given.transport;
  if (given.strategy || given.devices || given.replicas || given.workers) {
    const auto before = settle(saved).replicas;
    out.strategy = given.strategy;
    out.devices = given.devices;
    out.replicas = given.replicas;
    out.workers = given.workers;
    out.transport = given.transport;
    if (!given.replicas && !given.devices)
      out.replicas = before;
    if (const auto now = settle(out).replicas; now != before)
      throw std::invalid_argument(
        "--resume: the run had " + std::to_string(before)
        + " replicas, and would have " + std::to_string(now)
        + "; give a strategy with " + std::to_string(before));
  }
  each_option(
    [](const char* name, auto& to, const auto& was, const auto& now) {
      if (!now || now == was)
        return;
      if (!may_change(name))
        throw std::invalid_argument("--" + std::string{name} + " " + shown(now)
                                    + ": the run to resume has " + shown(was)
                                    + "; leave the option out");
      if (std::string_view{name} == "epochs"
          || std::string_view{name} == "on-nan")
        to = now;
    },
    out, saved, given);
  if (out.epochs != saved.epochs && settle(saved).rates_follow_epochs())
    throw std::invalid_argument(
      "--epochs " + shown(out.epochs) + ": the run to resume has "
      + shown(saved.epochs)
      + ", and its cosine schedule ends with them; leave the option out");
  return out;
}

} // namespace troupe
