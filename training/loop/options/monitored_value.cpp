#include "troupe/training/loop/options/monitored_value.hpp"

#include "troupe/models/detail/names.hpp"

#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

namespace {

constexpr std::string_view validation_prefix = "validation_";

/// Finds "loss" or a metric.
/// @returns false if there is none of this name.
bool find_value(std::string_view name, const metric_list& metrics,
                monitored_value& out) {
  if (name == monitored_metric::loss)
    return true;
  out.metric = metrics.find(name);
  return out.metric.has_value();
}

[[noreturn]] void refuse(const std::string& name, const metric_list& metrics) {
  std::vector<std::string> known{monitored_metric::loss};
  for (std::size_t i = 0; i < metrics.size(); ++i)
    known.push_back(metrics.name(i));
  const std::string prefix{
    name.starts_with(validation_prefix) ? validation_prefix : ""};
  const auto meant = models::detail::nearest(name.substr(prefix.size()), known);
  for (std::size_t i = 0, n = known.size(); i < n; ++i)
    known.push_back(std::string{validation_prefix} + known[i]);
  throw std::invalid_argument(
    "early stopping monitors " + models::detail::in_quotes(name)
    + ", which this fit does not have;"
    + (meant.empty() ? "" : " did you mean \"" + prefix + meant + "\"?")
    + " it has " + models::detail::joined(known));
}

} // namespace

monitored_value monitored_value_of(const early_stopping& options,
                                   const metric_list& metrics) {
  if (!(options.min_delta >= 0 && std::isfinite(options.min_delta)))
    throw std::invalid_argument("early stopping's min_delta is "
                                + std::to_string(options.min_delta)
                                + "; it is a number of at least 0");
  monitored_value out;
  std::string_view name = options.monitor;
  if (!find_value(name, metrics, out)) {
    out.is_validation = name.starts_with(validation_prefix);
    if (out.is_validation)
      name.remove_prefix(validation_prefix.size());
    if (!out.is_validation || !find_value(name, metrics, out))
      refuse(options.monitor, metrics);
  }
  const auto of_metric =
    out.metric ? metrics.larger_is_better(*out.metric) : std::optional{false};
  if (options.mode != monitor_mode::automatic)
    out.larger_is_better = options.mode == monitor_mode::max;
  else if (of_metric)
    out.larger_is_better = *of_metric;
  else
    throw std::invalid_argument(
      "early stopping monitors " + models::detail::in_quotes(name)
      + ", and the metric does not say whether a larger value is better; set "
        "larger_is_better of the metric, or the mode");
  return out;
}

} // namespace troupe
