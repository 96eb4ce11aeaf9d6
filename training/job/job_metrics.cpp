#include "troupe/training/job/job_metrics.hpp"

#include "troupe/training/job/data_source.hpp"
#include "troupe/training/job/job_resolution.hpp"

#include <algorithm>
#include <array>

namespace troupe {

std::optional<std::vector<models::metric>>
metrics_of(const train_config& config) {
  constexpr auto of_clicks = "binary_cross_entropy";
  if (config.loss != of_clicks || default_loss(config.data) != of_clicks)
    return std::nullopt;
  return std::vector{models::auc_metric({.from_logits = true})};
}

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
    out.push_back(*std::ranges::find(all, name, &models::metric::name));
  }
  return out;
}

} // namespace troupe
