#include "troupe/training/loop/options/metric_list.hpp"

#include "troupe/models/detail/names.hpp"
#include "troupe/strategies/step_commit/step_report.hpp"
#include "troupe/tensors/tape.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

void check(const models::metric& one) {
  const auto name = models::detail::in_quotes(one.name);
  if (!models::detail::is_name(one.name))
    throw std::invalid_argument("a metric cannot be named " + name
                                + ": a name is "
                                + std::string{models::detail::name_rule});
  if (!one.add)
    throw std::invalid_argument("the metric " + name
                                + " has no function; set `add`");
  if (one.sums == 0 || (!one.value && one.sums != 2))
    throw std::invalid_argument(
      "the metric " + name + " has " + std::to_string(one.sums)
      + " sums; without `value` a metric has 2, a sum and a count, else at "
        "least 1");
}

} // namespace

metric_list::metric_list(std::vector<models::metric> metrics)
  : metrics_{std::move(metrics)} {
  for (std::size_t i = 0; i < metrics_.size(); ++i) {
    const auto& one = metrics_[i];
    check(one);
    if (std::ranges::find(metrics_.begin(),
                          metrics_.begin() + std::ptrdiff_t(i), one.name,
                          &models::metric::name)
        != metrics_.begin() + std::ptrdiff_t(i))
      throw std::invalid_argument("two metrics are named "
                                  + models::detail::in_quotes(one.name)
                                  + "; give each its own name");
    if (one.sums > max_step_sums - sum_count_)
      throw std::invalid_argument(
        "the metrics up to " + models::detail::in_quotes(one.name)
        + " have more than the maximum of " + std::to_string(max_step_sums)
        + " sums; choose fewer metrics");
    begins_.push_back(sum_count_);
    sum_count_ += one.sums;
  }
}

void metric_list::add(const tensor& outputs, const tensor& labels,
                      std::span<double> sums) const {
  if (metrics_.empty())
    return;
  const pause_recording meanwhile;
  const auto values = outputs.detach().to({});
  const auto wanted = models::shaped_as(values, labels);
  for (std::size_t i = 0; i < metrics_.size(); ++i)
    metrics_[i].add(values, wanted, sums.subspan(begins_[i], metrics_[i].sums));
}

std::optional<std::size_t> metric_list::find(std::string_view name) const {
  const auto found = std::ranges::find(metrics_, name, &models::metric::name);
  if (found == metrics_.end())
    return std::nullopt;
  return static_cast<std::size_t>(found - metrics_.begin());
}

double metric_list::value(std::size_t i, std::span<const double> sums) const {
  const auto own = sums.subspan(begins_[i], metrics_[i].sums);
  return metrics_[i].value ? metrics_[i].value(own) : own[0] / own[1];
}

std::vector<metric_value>
metric_list::values(std::span<const double> sums) const {
  std::vector<metric_value> out;
  for (std::size_t i = 0; i < size(); ++i)
    out.push_back({name(i), value(i, sums)});
  return out;
}

std::string metric_list::description() const {
  std::string text;
  for (const auto& one : metrics_)
    text += (text.empty() ? "" : ", ") + one.name + " ("
            + std::to_string(one.sums) + ")";
  return text.empty() ? "none" : text;
}

metric_list
metrics_of(const models::loss& loss,
           const std::optional<std::vector<models::metric>>& chosen) {
  if (chosen)
    return metric_list{*chosen};
  if (loss.targets == models::target_kind::classes)
    return metric_list{{models::accuracy_metric()}};
  return metric_list{};
}

double accuracy_in(std::span<const metric_value> values) {
  const auto found = std::ranges::find(values, "accuracy", &metric_value::name);
  return found == values.end() ? epoch_record::none : found->value;
}

} // namespace troupe
