#include "troupe/apps/troupe/base/command.hpp"
#include "troupe/apps/troupe/base/exit_code.hpp"
#include "troupe/models/network.hpp"
#include "troupe/models/zoo.hpp"

#include <iostream>

namespace {

int list(const std::string& name, bool json) {
  if (name.empty()) {
    for (const auto& one : troupe::models::zoo_names())
      std::cout << one << '\n';
    return ok;
  }
  const auto description = troupe::models::find_model(name);
  if (json)
    std::cout << troupe::models::to_json_text(description) << '\n';
  else
    std::cout << summary(troupe::models::network{description});
  return ok;
}

} // namespace

void add_models(CLI::App& tool, action& selected) {
  auto& command =
    *tool.add_subcommand("models", "List the built-in models, or describe one");
  command.footer("Examples:\n"
                 "  troupe models                     the names\n"
                 "  troupe models lenet               layers and parameters\n"
                 "  troupe models mine.json           checks a description\n"
                 "  troupe models mlp --json > mine.json\n"
                 "  troupe train --model mine.json\n");
  struct models_options {
    std::string name;
    bool json = false;
  };
  const auto options = std::make_shared<models_options>();
  command.add_option(
    "MODEL", options->name,
    "Name of a built-in model, or FILE.json with a description");
  command.add_flag("--json", options->json, "Write the description as JSON");
  command.callback([options, &selected] {
    selected = [options] { return list(options->name, options->json); };
  });
}
