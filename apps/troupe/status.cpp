#include "command.hpp"
#include "credential_options.hpp"
#include "option_parsing.hpp"
#include "troupe/actors/node/status_query.hpp"
#include "troupe/actors/runtime/runtime.hpp"

#include <iostream>

namespace {

struct given {
  std::string address;
  troupe::remote_options how{.name = "status"};
};

int show(const given& x, const credential_options& by) {
  auto how = x.how;
  how.credentials = by.read();
  troupe::runtime runtime;
  std::cout << troupe::remote_status(runtime, x.address, how);
  return ok;
}

} // namespace

void add_status(CLI::App& tool, action& what) {
  auto& command =
    *tool.add_subcommand("status", "Show the state of a job or a node");
  command.footer("The address of a job is that of its leader: the chief, or "
                 "worker 0. For a step\nthat is not complete, the output "
                 "says what each role does and which are missing.\n");
  const auto x = std::make_shared<given>();
  const auto by = std::make_shared<credential_options>(command);
  command.add_option("ADDRESS", x->address, "HOST:PORT")->required();
  const auto add_timeout = [&command, x](const std::string& name) {
    return command
      .add_option_function<std::string>(
        name,
        [x, name](const std::string& text) {
          x->how.patience =
            std::chrono::seconds{whole_number(name, text, 1, 3600)};
        },
        "Seconds to wait for a reply [5]")
      ->type_name("SECONDS");
  };
  auto* const timeout = add_timeout("--timeout");
  // The old name, not shown in the help; to be removed after version 0.1.
  add_timeout("--patience")->group("")->excludes(timeout);
  command.callback(
    [x, by, &what] { what = [x, by] { return show(*x, *by); }; });
}
