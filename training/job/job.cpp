#include "troupe/net/base/log_rate_limiter.hpp"
#include "troupe/training/job/job_resolution.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <sstream>
#include <stdexcept>

namespace troupe {

void refuse_option(const std::string& option, const std::string& value,
                   const std::string& why) {
  throw std::invalid_argument(option + " " + net::printable(value) + ": "
                              + net::printable(why));
}

std::uint64_t at_least_one(const char* option, std::int64_t x,
                           std::uint64_t most) {
  if (x < 1 || static_cast<std::uint64_t>(x) > most)
    refuse_option(option, std::to_string(x),
                  "give a number from 1 to " + std::to_string(most));
  return static_cast<std::uint64_t>(x);
}

namespace {

/// Parses "sgd:momentum=0.9,nesterov=1" into a name and numbers.
struct named {
  std::string name;
  named_numbers numbers;
};

named parse_named(const char* option, const std::string& text) {
  const auto colon = text.find(':');
  named out{text.substr(0, colon), {}};
  if (colon == text.npos)
    return out;
  std::istringstream rest{text.substr(colon + 1)};
  for (std::string one; std::getline(rest, one, ',');) {
    const auto equals = one.find('=');
    double value = 0;
    const auto* last = one.data() + one.size();
    const auto first = equals == one.npos ? one.size() : equals + 1;
    const auto [end, error] = std::from_chars(one.data() + first, last, value);
    if (equals == one.npos || error != std::errc{} || end != last)
      refuse_option(option, text,
                    "\"" + one + "\" is not a setting; write " + out.name
                      + ":name=number,name=number");
    out.numbers.push_back({one.substr(0, equals), value});
  }
  return out;
}

bool has(const named_numbers& all, const std::string& name) {
  return std::ranges::find(all, name, &named_number::name) != all.end();
}

/// Adds a number unless the name is present.
void add(named_numbers& to, const char* name, double value) {
  if (!has(to, name))
    to.push_back({name, value});
}

template <class F>
auto naming(const char* option, const std::string& value, F fn) {
  try {
    return fn();
  } catch (const std::invalid_argument& e) {
    refuse_option(option, value, e.what());
  }
}

} // namespace

update_rule settled_job::rule() const {
  return naming("--optimizer", optimizer, [&] {
    auto x = parse_named("--optimizer", optimizer);
    if (learning_rate > 0)
      add(x.numbers, "learning_rate", learning_rate);
    return update_rule{x.name, x.numbers};
  });
}

schedule settled_job::rates(std::uint64_t steps) const {
  const auto rate = static_cast<double>(rule().learning_rate());
  return naming("--schedule", schedule, [&] {
    auto x = parse_named("--schedule", schedule);
    add(x.numbers, "learning_rate", rate);
    if (x.name == "cosine")
      add(x.numbers, "steps", static_cast<double>(steps));
    return troupe::schedule{x.name, x.numbers};
  });
}

bool settled_job::rates_follow_epochs() const {
  const auto x = parse_named("--schedule", schedule);
  return x.name == "cosine" && !has(x.numbers, "steps");
}

settled_job settle(const job& x) {
  settled_job out;
  out.model = x.model.value_or("mlp");
  out.data = x.data.value_or("digits");
  out.optimizer = x.optimizer.value_or("adam");
  out.schedule = x.schedule.value_or("constant");
  out.epochs =
    at_least_one("--epochs", x.epochs.value_or(5), job_limits::epochs);
  out.batch = at_least_one("--batch", x.batch.value_or(64), job_limits::batch);
  out.threads = static_cast<int>(
    at_least_one("--threads", x.threads.value_or(1), job_limits::threads));
  if (x.patience)
    out.patience =
      at_least_one("--patience", *x.patience, job_limits::patience);
  out.seed = x.seed.value_or(1);
  if (x.learning_rate
      && !(*x.learning_rate > 0 && std::isfinite(*x.learning_rate))) {
    std::ostringstream text;
    text << *x.learning_rate;
    refuse_option("--learning-rate", text.str(),
                  "give a number above 0, as in 0.001");
  }
  if (x.learning_rate
      && has(parse_named("--optimizer", out.optimizer).numbers,
             "learning_rate"))
    refuse_option("--optimizer", out.optimizer,
                  "--learning-rate is given too; leave one of the two out");
  out.learning_rate = x.learning_rate.value_or(0);
  const auto nan = x.on_nan.value_or("stop");
  if (nan != "stop" && nan != "skip")
    refuse_option("--on-nan", "\"" + nan + "\"", "give stop or skip");
  out.on_nan = nan == "skip" ? on_nan::skip : on_nan::stop;
  settle_where(x, out);
  if (out.batch < out.replicas)
    refuse_option("--batch", std::to_string(out.batch),
                  "it is divided over " + std::to_string(out.replicas)
                    + " replicas; give at least "
                    + std::to_string(out.replicas));
  out.rates(std::uint64_t{1} << 40); // Checks the schedule and the optimizer.
  return out;
}

job given_by(const settled_job& x) {
  job out;
  out.model = x.model;
  out.data = x.data;
  out.optimizer = x.optimizer;
  out.schedule = x.schedule;
  out.strategy = x.strategy;
  out.on_nan = x.on_nan == on_nan::skip ? "skip" : "stop";
  out.devices = x.devices;
  out.epochs = static_cast<std::int64_t>(x.epochs);
  out.batch = static_cast<std::int64_t>(x.batch);
  out.threads = x.threads;
  out.replicas = x.replicas;
  if (x.strategy == "multi_worker_mirrored") {
    out.workers = x.workers;
    out.transport = x.transport;
  }
  if (x.patience > 0)
    out.patience = static_cast<std::int64_t>(x.patience);
  out.seed = x.seed;
  if (x.learning_rate > 0)
    out.learning_rate = x.learning_rate;
  return out;
}

} // namespace troupe
