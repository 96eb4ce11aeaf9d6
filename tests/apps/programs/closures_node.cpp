// A node that is a worker of a cluster coordinator in tests. Its first line of
// output ends with its address. The closure "move" moves 1 from x to y if x is
// greater, else back, adds 1 to n, and returns what was moved. "add" adds 1 to
// n only. "endless" reads x for ever.

#include <iostream>
#include <troupe/actors/node/node_server.hpp>
#include <troupe/troupe.hpp>

namespace {

using namespace troupe;

registered_closures make_closures(const parameter_server_strategy& servers,
                                  std::uint32_t) {
  const auto x = servers.variable("x"), y = servers.variable("y"),
             n = servers.variable("n");
  const auto number = [](const server_variable& v) {
    return v.value().item<float>();
  };
  return {{"move",
           [=](closure_context&, const tensors&) -> tensors {
             const auto step = number(x) > number(y) ? 1 : -1;
             x.assign_sub(step);
             y.assign_add(step);
             n.assign_add(1);
             return {tensor::full({}, step)};
           }},
          {"add",
           [=](closure_context&, const tensors&) -> tensors {
             n.assign_add(1);
             return {};
           }},
          {"endless", [=](closure_context& self, const tensors&) -> tensors {
             n.assign_add(1);
             while (self.attempt() == 1)
               x.value();
             return {};
           }}};
}

} // namespace

int main() {
  runtime actors;
  register_closures(actors, "moves", make_closures);
  node_server node{actors};
  std::cout << "listening on " << node.address() << std::endl;
  return node.wait_for_stop(std::chrono::minutes{10}) ? 0 : 1;
}
