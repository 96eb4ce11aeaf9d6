#include "troupe/actors/node/node_server.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/apps/troupe/base/command.hpp"
#include "troupe/apps/troupe/base/credential_options.hpp"
#include "troupe/apps/troupe/base/exit_code.hpp"
#include "troupe/apps/troupe/base/interrupt.hpp"
#include "troupe/apps/troupe/base/option_parsing.hpp"
#include "troupe/net/base/address.hpp"
#include "troupe/training/parameter_server/parameter_server_strategy.hpp"

#include <iostream>
#include <mutex>
#include <stdexcept>

namespace {

constexpr auto node_examples =
  "Examples:\n"
  "  troupe node\n"
  "  troupe node --listen 0.0.0.0:4100 --ports 4110 \\\n"
  "    --advertise worker-1.example:4100 --secret-file secret\n"
  "  troupe node --join client.example:4200 --secret-file secret\n"
  "\n"
  "The first line on standard output is the address that it listens on.\n"
  "Beyond this machine it needs a secret or certificates. It ends on SIGINT, "
  "SIGTERM\n"
  "or SIGHUP, or when a program requests it. A spawned role ends with the "
  "node, "
  "or\n"
  "earlier with the connection over which it was requested. A program can use "
  "the\n"
  "node as a parameter server.\n"
  "\n"
  "With --join, the node announces itself to a client that listens for "
  "spares,\n"
  "and waits until the client needs it in the place of a lost node. It ends "
  "with\n"
  "code 1 if the client refuses it, as one whose steps are not registered in "
  "the\n"
  "node's program, or if it has no connection to the client for "
  "--join-timeout.\n"
  "A node that was used or released goes on until it is told to end.\n";

struct node_options {
  troupe::node_server_options server;
};

void check_address(const std::string& option, const std::string& text) {
  try {
    troupe::net::parse_address(text);
  } catch (const std::invalid_argument& e) {
    throw std::invalid_argument(option + " " + e.what());
  }
}

int serve(troupe::node_server_options options,
          const credential_options& credentials) {
  const auto& interrupted = *watch_for_interrupts().stop;
  const auto first_port = troupe::net::parse_address(options.listen).port;
  if (options.last_port != 0 && options.last_port < first_port)
    throw std::invalid_argument("--ports " + std::to_string(options.last_port)
                                + ": give the last port, "
                                + std::to_string(first_port) + " or higher");
  options.connection.credentials = credentials.read();
  std::mutex output; // so that the first line is that of the address
  options.on_join_event = [&](const std::string& text) {
    const std::lock_guard hold{output};
    std::cout << text << std::endl;
  };
  troupe::runtime runtime;
  troupe::client_options to_servers{.window = 4096};
  to_servers.connection = options.connection;
  register_parameter_server(runtime, to_servers);
  std::unique_lock hold{output};
  troupe::node_server node{runtime, options};
  std::cout << "listening on " << node.address() << std::endl;
  hold.unlock();
  while (!interrupted && !node.wait_for_stop(std::chrono::milliseconds{50})) {
  }
  return ok;
}

} // namespace

void add_node(CLI::App& tool, action& selected) {
  auto& command = *tool.add_subcommand(
    "node", "Let other programs spawn roles in this process");
  command.footer(node_examples);
  const auto options = std::make_shared<node_options>();
  const auto credentials = std::make_shared<credential_options>(command);
  command
    .add_option_function<std::string>(
      "--listen",
      [options](const std::string& text) {
        check_address("--listen", text);
        options->server.listen = text;
      },
      "Address to listen on; port 0: any free port [127.0.0.1:0]")
    ->type_name("HOST:PORT");
  command
    .add_option_function<std::string>(
      "--ports",
      [options](const std::string& text) {
        options->server.last_port =
          static_cast<std::uint16_t>(parse_integer("--ports", text, 1, 65535));
      },
      "Last port to try; the first is that of --listen")
    ->type_name("LAST");
  command
    .add_option_function<std::string>(
      "--advertise",
      [options](const std::string& text) {
        check_address("--advertise", text);
        options->server.advertise = text;
      },
      "Address that clients connect to, if it differs from --listen")
    ->type_name("HOST:PORT");
  command
    .add_option_function<std::string>(
      "--join",
      [options](const std::string& text) {
        check_address("--join", text);
        options->server.join = text;
      },
      "Address of a client that listens for spares")
    ->type_name("HOST:PORT");
  command
    .add_option_function<std::string>(
      "--join-timeout",
      [options](const std::string& text) {
        constexpr std::uint64_t max_seconds = 7 * 24 * 3600;
        options->server.join_timeout = std::chrono::seconds{
          parse_integer("--join-timeout", text, 1, max_seconds)};
      },
      "Maximum time without a connection to that client [300]")
    ->type_name("SECONDS")
    ->needs("--join");
  command
    .add_option("--name", options->server.name, "Name of the node in messages")
    ->capture_default_str();
  command.callback([options, credentials, &selected] {
    selected = [options, credentials] {
      return serve(options->server, *credentials);
    };
  });
}
