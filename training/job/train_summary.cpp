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
    case fit_end::interrupted:
      break;
  }
  return "interrupted";
}

double train_loss(const history& x) {
  return x.epochs.empty() ? epoch_record::none : x.epochs.back().loss;
}

double train_accuracy(const history& x) {
  return x.epochs.empty() ? epoch_record::none : x.epochs.back().accuracy;
}

double seconds(const history& x) {
  double sum = 0;
  for (const auto& one : x.epochs)
    sum += one.seconds;
  return sum;
}

/// Returns the rate as it was given: 0.001, not the nearest float.
double learning_rate(const settled_job& x) {
  for (const auto& one : x.rule().numbers())
    if (one.name == "learning_rate")
      return one.value;
  return 0;
}

} // namespace

std::uint64_t train_summary::examples() const {
  std::uint64_t sum = 0;
  for (const auto& one : done.epochs)
    sum += one.examples;
  return sum;
}

double train_summary::examples_per_second() const {
  const auto in = seconds(done);
  return in > 0 ? static_cast<double>(examples()) / in : 0;
}

std::string to_json_text(const train_summary& x) {
  auto epochs = json::array();
  for (const auto& one : x.done.epochs)
    epochs.push_back({{"epoch", one.epoch},
                      {"examples", one.examples},
                      {"seconds", number(one.seconds)},
                      {"learning_rate", number(one.learning_rate)},
                      {"loss", number(one.loss)},
                      {"accuracy", number(one.accuracy)},
                      {"test_loss", number(one.validation_loss)},
                      {"test_accuracy", number(one.validation_accuracy)}});
  const json all{{"version", version},
                 {"end", name_of(x.done.end)},
                 {"model", x.job.model},
                 {"data", x.job.data},
                 {"strategy", x.job.strategy},
                 {"devices", x.job.devices},
                 {"replicas", x.job.replicas},
                 {"workers", x.job.workers},
                 {"transport", x.transport},
                 {"threads", x.job.threads},
                 {"batch", x.job.batch},
                 {"optimizer", x.job.optimizer},
                 {"learning_rate", learning_rate(x.job)},
                 {"schedule", x.job.schedule},
                 {"seed", x.job.seed},
                 {"steps", x.steps},
                 {"examples", x.examples()},
                 {"seconds", number(seconds(x.done))},
                 {"examples_per_second", number(x.examples_per_second())},
                 {"train_loss", number(train_loss(x.done))},
                 {"train_accuracy", number(train_accuracy(x.done))},
                 {"test_loss", number(x.test.loss)},
                 {"test_accuracy", number(x.test.accuracy)},
                 {"weights_sha256", x.weights_sha256},
                 {"epochs", std::move(epochs)}};
  return all.dump(2) + "\n";
}

void write_summary(const train_summary& x, const std::filesystem::path& file) {
  safe_file out{file};
  out.write(to_json_text(x));
  out.commit();
}

} // namespace troupe
