#include "command.hpp"
#include "credential_options.hpp"
#include "interrupt.hpp"
#include "option_parsing.hpp"
#include "troupe/actors/node/node_server.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/net/base/address.hpp"
#include "troupe/training/support/log.hpp"

#include <iostream>
#include <stdexcept>

namespace {

constexpr auto examples =
  "Examples:\n"
  "  troupe node\n"
  "  troupe node --listen 0.0.0.0:4100 --ports 4110 \\\n"
  "    --advertise worker-1.example:4100 --secret-file secret\n"
  "\n"
  "The first line on standard output is the address that it listens on.\n"
  "Beyond this machine it needs a secret or certificates. It ends on SIGINT, "
  "on\n"
  "SIGTERM, or when a program requests it. A spawned role ends with the node, "
  "or\n"
  "earlier with the connection over which it was requested.\n";

struct given {
  troupe::node_server_options node;
};

void check_address(const std::string& option, const std::string& text) {
  try {
    troupe::net::parse_address(text);
  } catch (const std::invalid_argument& e) {
    throw std::invalid_argument(option + " " + e.what());
  }
}

int serve(troupe::node_server_options options, const credential_options& by) {
  const auto& interrupted = watch_for_interrupts();
  const auto first = troupe::net::parse_address(options.listen).port;
  if (options.last_port != 0 && options.last_port < first)
    throw std::invalid_argument("--ports " + std::to_string(options.last_port)
                                + ": give the last port, "
                                + std::to_string(first) + " or higher");
  options.credentials = by.read();
  options.log = troupe::log_of_connections;
  troupe::runtime runtime;
  troupe::node_server node{runtime, options};
  std::cout << "listening on " << node.address() << std::endl;
  while (!interrupted && !node.wait_for_stop(std::chrono::milliseconds{50})) {
  }
  return ok;
}

} // namespace

void add_node(CLI::App& tool, action& what) {
  auto& command = *tool.add_subcommand(
    "node", "Let other programs spawn roles in this process");
  command.footer(examples);
  const auto x = std::make_shared<given>();
  const auto by = std::make_shared<credential_options>(command);
  command
    .add_option_function<std::string>(
      "--listen",
      [x](const std::string& text) {
        check_address("--listen", text);
        x->node.listen = text;
      },
      "Address to listen on; port 0: any free port [127.0.0.1:0]")
    ->type_name("HOST:PORT");
  command
    .add_option_function<std::string>(
      "--ports",
      [x](const std::string& text) {
        x->node.last_port =
          static_cast<std::uint16_t>(whole_number("--ports", text, 1, 65535));
      },
      "Last port to try; the first is that of --listen")
    ->type_name("LAST");
  command
    .add_option_function<std::string>(
      "--advertise",
      [x](const std::string& text) {
        check_address("--advertise", text);
        x->node.advertise = text;
      },
      "Address that clients connect to, if it differs from --listen")
    ->type_name("HOST:PORT");
  command.add_option("--name", x->node.name, "Name of the node in messages")
    ->capture_default_str();
  command.callback(
    [x, by, &what] { what = [x, by] { return serve(x->node, *by); }; });
}
