#include "handed_model.hpp"

#include "saved_run.hpp"
#include "troupe/models/zoo.hpp"

#include <algorithm>
#include <cstdlib>

using namespace troupe;

namespace {

/// Environment variable that names the launcher's copy of the model.
constexpr auto model_variable = "TROUPE_RUN_MODEL";

bool is_built_in(const std::string& model) {
  return std::ranges::count(models::zoo_names(), model) > 0;
}

} // namespace

handed_model::handed_model(const train_arguments& arguments,
                           const train_config& config) {
  if (!arguments.resume.empty() || is_built_in(config.model))
    return;
  const auto text = models::to_json_text(models::find_model(config.model));
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
  if (handed && *handed && !is_built_in(config.model))
    return models::load(handed);
  return models::find_model(config.model);
}
