#include "troupe/apps/troupe/commands/handed_model.hpp"

#include "troupe/apps/troupe/commands/saved_run.hpp"
#include "troupe/models/zoo.hpp"
#include "troupe/training/checkpoint/saved_model.hpp"

#include <algorithm>
#include <cstdlib>

using namespace troupe;

namespace {

/// Environment variable that names the launcher's copy of the model.
constexpr auto model_variable = "TROUPE_RUN_MODEL";

bool is_built_in(const std::string& model) {
  return std::ranges::count(models::zoo_names(), model) > 0;
}

/// True if the file of --init has the model of the run.
bool is_model_of_init(const train_arguments& arguments) {
  return !arguments.init.empty() && !arguments.options.model;
}

/// True if the processes of a run can find another model than its launcher.
bool can_change(const train_arguments& arguments, const train_config& config) {
  return arguments.resume.empty()
         && (is_model_of_init(arguments) || !is_built_in(config.model));
}

/// @pre no run is resumed.
models::model_description model_of_new_run(const train_arguments& arguments,
                                           const train_config& config) {
  return is_model_of_init(arguments) ? header_of(arguments.init).model
                                     : models::find_model(config.model);
}

} // namespace

handed_model::handed_model(const train_arguments& arguments,
                           const train_config& config) {
  if (!can_change(arguments, config))
    return;
  const auto text = models::to_json_text(model_of_new_run(arguments, config));
  copy_ = directory_.emplace().write("model.json", text);
}

void handed_model::add_to(environment_changes& variables) const {
  if (copy_.empty())
    variables[model_variable] = std::nullopt;
  else
    variables[model_variable] = copy_;
}

models::model_description model_of(const train_arguments& arguments,
                                   const train_config& config) {
  if (!arguments.resume.empty())
    return resumed_model(arguments);
  const auto* const handed = std::getenv(model_variable);
  if (handed && *handed && can_change(arguments, config))
    return models::load(handed);
  return model_of_new_run(arguments, config);
}
