#include "troupe/training/job/job_metrics.hpp"

#include "troupe/training/job/data_source.hpp"

namespace troupe {

std::optional<std::vector<models::metric>>
metrics_of(const train_config& config) {
  constexpr auto of_clicks = "binary_cross_entropy";
  if (config.loss != of_clicks || default_loss(config.data) != of_clicks)
    return std::nullopt;
  return std::vector{models::auc_metric({.from_logits = true})};
}

} // namespace troupe
