#include "command.hpp"
#include "troupe/models/network.hpp"
#include "troupe/models/zoo.hpp"

#include <iostream>

namespace {

int list(const std::string& name, bool json) {
  if (name.empty()) {
    for (const auto& one : troupe::models::ready_names())
      std::cout << one << '\n';
    return ok;
  }
  const auto what = troupe::models::find(name);
  if (json)
    std::cout << troupe::models::to_json_text(what) << '\n';
  else
    std::cout << summary(troupe::models::network{what});
  return ok;
}

} // namespace

void add_models(CLI::App& tool, action& what) {
  auto& command =
    *tool.add_subcommand("models", "List the built-in models, or describe one");
  struct given {
    std::string name;
    bool json = false;
  };
  const auto x = std::make_shared<given>();
  command.add_option(
    "MODEL", x->name,
    "Name of a built-in model, or FILE.json with a description");
  command.add_flag("--json", x->json, "Write the description as JSON");
  command.callback(
    [x, &what] { what = [x] { return list(x->name, x->json); }; });
}
