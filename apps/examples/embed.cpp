// Without arguments, this program is a node. With addresses of nodes as
// arguments, it runs replicas on these nodes and spawns its own role on the
// first node.

// [doc:begin embed]
#include <iostream>
#include <troupe/actors/node/blocking_client.hpp>
#include <troupe/actors/node/node_server.hpp>
#include <troupe/actors/node/remote_node.hpp>
#include <troupe/troupe.hpp>

using namespace troupe;
using role = caf::typed_actor<caf::replies_to<std::string>::with<std::string>>;

role::behavior_type greeter(const std::string& word) {
  return {[=](const std::string& name) { return word + ", " + name; }};
}

tensors add_up(replica_context& replica, const tensors& inputs) {
  return {replica.all_reduce(sum, inputs[0] + replica.replica_id())};
}

int main(int argc, char** argv) {
  runtime actors;
  if (argc == 1) {
    register_role<role, std::string>(actors, "greeter", greeter);
    register_steps(actors, "sums", {.run = {{"add_up", add_up}}});
    node_server node{actors};
    std::cout << "listening on " << node.address() << std::endl;
    return node.wait_for_stop(std::chrono::hours{1}) ? 0 : 1;
  }
  remote_strategy nodes{actors, {argv + 1, argv + argc}, {.steps = "sums"}};
  const auto sums = nodes.run("add_up", {tensor::full({}, 1)});
  std::cout << "mean " << nodes.reduce(mean, sums)[0] << '\n';
  const auto remote_greeter = nodes.node(0).spawn<role>("greeter", "Hello");
  std::cout << ask<std::string>(actors.system(), "greeting", remote_greeter,
                                std::chrono::seconds{5}, std::string{"world"})
            << "\n";
}
// [doc:end]
