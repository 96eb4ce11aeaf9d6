#include "troupe/actors/node/status_query.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/apps/troupe/base/command.hpp"
#include "troupe/apps/troupe/base/credential_options.hpp"
#include "troupe/apps/troupe/base/exit_code.hpp"
#include "troupe/apps/troupe/base/option_parsing.hpp"

#include <iostream>

namespace {

struct status_options {
  std::string address;
  troupe::client_options client{.name = "status"};
};

int show(const status_options& options, const credential_options& credentials) {
  auto client = options.client;
  client.connection.credentials = credentials.read();
  troupe::runtime runtime;
  std::cout << troupe::query_status(runtime, options.address, client);
  return ok;
}

} // namespace

void add_status(CLI::App& tool, action& selected) {
  auto& command =
    *tool.add_subcommand("status", "Show the state of a job or a node");
  command.footer("Examples:\n"
                 "  troupe status 127.0.0.1:4100\n"
                 "  troupe status 10.0.0.1:7000 --secret-file secret\n"
                 "\n"
                 "The address of a job is that of any of its processes. For a "
                 "step that is not\ncomplete, the output says what each role "
                 "does, which are missing and since when,\nand how the job "
                 "has changed its view. For the chief of a run with parameter "
                 "servers, it\nshows the servers.\n");
  const auto options = std::make_shared<status_options>();
  const auto credentials = std::make_shared<credential_options>(command);
  command.add_option("ADDRESS", options->address, "HOST:PORT")->required();
  const auto add_timeout = [&command, options](const std::string& name) {
    return command
      .add_option_function<std::string>(
        name,
        [options, name](const std::string& text) {
          options->client.connect_timeout =
            std::chrono::seconds{parse_integer(name, text, 1, 3600)};
        },
        "Seconds to wait for a reply [5]")
      ->type_name("SECONDS");
  };
  auto* const timeout = add_timeout("--timeout");
  // --patience is the old name of --timeout. The help does not show it, and it
  // is to be removed after version 0.1.
  auto* const old_name = add_timeout("--patience")->group("");
  command.callback([options, credentials, timeout, old_name, &selected] {
    if (timeout->count() > 0 && old_name->count() > 0)
      throw CLI::ValidationError{
        "--patience", "is the old name of --timeout: give --timeout only"};
    selected = [options, credentials] { return show(*options, *credentials); };
  });
}
