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
    *tool.add_subcommand("models", "List the ready models, or describe one");
  struct given {
    std::string name;
    bool json = false;
  };
  const auto x = std::make_shared<given>();
  command.add_option("MODEL", x->name,
                     "A ready model's name, or a description's FILE.json");
  command.add_flag("--json", x->json,
                   "Write its description, to start a new one from");
  command.callback(
    [x, &what] { what = [x] { return list(x->name, x->json); }; });
}
