#include "troupe/training/job/job_metrics.hpp"

#include "troupe/training/job/data_source.hpp"
#include "troupe/training/job/job_resolution.hpp"
#include "troupe/training/loop/options/monitored_value.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace troupe {

std::optional<std::vector<models::metric>>
metrics_of(const train_config& config) {
  constexpr auto of_clicks = "binary_cross_entropy";
  if (config.loss != of_clicks || default_loss(config.data) != of_clicks)
    return std::nullopt;
  return std::vector{models::auc_metric({.from_logits = true})};
}

namespace {

/// Checks that a metric compares outputs with the labels that a loss has.
void check_labels_of(const std::string& metric, const std::string& loss) {
  const auto labels = models::find_loss(loss).targets;
  const bool is_accuracy = metric == "accuracy";
  const auto reject = [&](const std::string& rest) {
    reject_option("--metrics", metric,
                  "the model has the loss \"" + loss + "\", so its labels are "
                    + rest);
  };
  if (labels == models::target_kind::classes && !is_accuracy)
    reject("class numbers; give accuracy");
  if (labels == models::target_kind::values && is_accuracy)
    reject("values; give auc, mean_absolute_error or "
           "root_mean_squared_error");
}

} // namespace

std::vector<models::metric> metrics_named(const std::vector<std::string>& names,
                                          const std::string& loss) {
  const std::array all{
    models::accuracy_metric(),
    models::auc_metric({.from_logits = loss == "binary_cross_entropy"}),
    models::mean_absolute_error_metric(),
    models::root_mean_squared_error_metric()};
  std::vector<std::string> known;
  for (const auto& one : all)
    known.push_back(one.name);
  std::vector<models::metric> out;
  for (const auto& name : names) {
    check_name("--metrics", name, known);
    check_labels_of(name, loss);
    out.push_back(*std::ranges::find(all, name, &models::metric::name));
  }
  return out;
}

void check_monitor(const train_config& config) {
  if (config.patience == 0)
    return;
  try {
    monitored_value_of(
      {.monitor = config.monitor},
      metrics_of(models::find_loss(config.loss), metrics_of(config)));
  } catch (const std::invalid_argument& e) {
    reject_option("--monitor", config.monitor, e.what());
  }
}

} // namespace troupe
