// Without an argument a node; with its address, what spawns a role there.

// [doc:begin embed]
#include <caf/scoped_actor.hpp>

#include <iostream>
#include <troupe/actors/node_server.hpp>
#include <troupe/actors/remote_node.hpp>

using greeter_actor =
  caf::typed_actor<caf::replies_to<std::string>::with<std::string>>;

greeter_actor::behavior_type greeter(const std::string& word) {
  return {[=](const std::string& name) { return word + ", " + name; }};
}

int main(int argc, char** argv) {
  troupe::runtime runtime;
  troupe::register_role<greeter_actor, std::string>(runtime, "greeter",
                                                    greeter);
  if (argc == 1) {
    troupe::node_server node{runtime};
    std::cout << "listening on " << node.address() << std::endl;
    return node.wait_for_stop(std::chrono::hours{1}) ? 0 : 1;
  }
  troupe::remote_node node{runtime, argv[1]};
  const auto there = node.spawn<greeter_actor>("greeter", "Hello");
  caf::scoped_actor self{runtime.system()};
  self->request(there, std::chrono::seconds{5}, std::string{"world"})
    .receive([](const std::string& text) { std::cout << text << '\n'; },
             [&](const caf::error& e) { std::cerr << to_string(e) << '\n'; });
}
// [doc:end]
