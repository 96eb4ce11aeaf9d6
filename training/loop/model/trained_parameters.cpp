#include "troupe/training/loop/model/trained_parameters.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace troupe {

namespace {

/// @errors throws std::invalid_argument if `fit` cannot train a model with
///         tables in this job.
void check_tables(const model_state& model) {
  const auto& all = model.net.parameters();
  const auto table = std::ranges::find(all, true, &parameter_spec::is_table);
  if (table == all.end())
    return;
  const auto reject = [&](const char* where, const char* remedy) {
    throw std::invalid_argument(
      "the model \"" + model.net.name() + "\" has the table \"" + table->name
      + "\", of which fit updates the rows that occur in a step, but not "
      + where + "; " + remedy);
  };
  if (model.strategy->tensor_device().kind != device_kind::cpu)
    reject("on a device", "train it on the CPU");
  if (!model.strategy->is_one_process || model.model_parameters.copies() > 1)
    reject("in a job of several processes",
           "train it in one process, with any number of replicas");
}

} // namespace

trained_parameters::trained_parameters(const model_state& model,
                                       const fit_options& options)
  : model_{model} {
  check_tables(model);
  const auto variables = model.variables();
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const bool is_trained =
      !options.trainable || options.trainable(variables[i]);
    if (!is_trained)
      frozen_.push_back(i);
    else if (model.net.parameters()[i].is_table)
      tables_.push_back(i);
    else
      dense_.push_back(i);
  }
  if (!variables.empty() && frozen_.size() == variables.size())
    throw std::invalid_argument("`trainable` selects none of the "
                                + std::to_string(variables.size())
                                + " variables; select at least one");
}

std::vector<element_range>
trained_parameters::ranges_of(const std::vector<std::size_t>& numbers,
                              std::size_t begin, std::size_t end) const {
  const auto& all = model_.model_parameters;
  std::vector<element_range> ranges;
  for (const auto i : numbers) {
    const auto first = all.offset(i);
    const auto last =
      i + 1 < all.variables().size() ? all.offset(i + 1) : all.size();
    const element_range one{std::max(first, begin), std::min(last, end)};
    if (one.begin >= one.end)
      continue;
    if (!ranges.empty() && ranges.back().end == one.begin)
      ranges.back().end = one.end;
    else
      ranges.push_back(one);
  }
  return ranges;
}

} // namespace troupe
