// Measures requests to a role in another process of this host. One request has
// a tensor and a short response, another one is short and has a tensor as
// response.

#include "troupe/actors/node/blocking_client.hpp"
#include "troupe/actors/node/node_server.hpp"
#include "troupe/actors/node/remote_node.hpp"
#include "troupe/benchmarks/timing.hpp"
#include "troupe/troupe.hpp"

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <sys/wait.h>
#include <unistd.h>

using namespace troupe;
using benchmarks::seconds_since;

namespace {

using store_actor = caf::typed_actor<
  // Returns the number of elements.
  caf::replies_to<tensor>::with<std::int64_t>,
  // Returns a tensor with so many elements.
  caf::replies_to<std::int64_t>::with<tensor>>;

struct store_state {
  tensor last;
};

store_actor::behavior_type
store(store_actor::stateful_pointer<store_state> self) {
  return {
    [self](const tensor& x) {
      self->state.last = x;
      return static_cast<std::int64_t>(x.size());
    },
    [self](std::int64_t elements) {
      auto& last = self->state.last;
      if (!last || last.size() != static_cast<std::size_t>(elements))
        last = tensor::full({elements}, 1);
      return last;
    },
  };
}

struct settings {
  std::string transport = "shm";
  int rounds = 15;
};

/// Serves as a node until the process is killed.
int serve(int address_pipe) {
  runtime actors;
  register_role<store_actor>(actors, "store", store);
  node_server node{actors, {.connection = {.credentials = net::credentials{}}}};
  const auto address = node.address() + "\n";
  if (::write(address_pipe, address.data(), address.size())
      != static_cast<ssize_t>(address.size()))
    return 1;
  return node.wait_for_stop(std::chrono::hours{1}) ? 0 : 1;
}

std::string read_line(int descriptor) {
  std::string line;
  for (char c = 0; ::read(descriptor, &c, 1) == 1 && c != '\n';)
    line += c;
  return line;
}

/// Calls `fn` in each round and prints the times.
template <class F>
void measure(const settings& s, const char* label, std::size_t mib, F fn) {
  std::vector<double> times_ms;
  for (int round = 0; round < s.rounds + 2; ++round) {
    const auto start = benchmarks::clock::now();
    fn();
    if (round >= 2) // the first two rounds warm up the memory
      times_ms.push_back(seconds_since(start) * 1e3);
  }
  const auto x = benchmarks::summarize(times_ms);
  std::printf("  %-22s %3zu MiB %9.2f ms  (%.2f to %.2f)\n", label, mib,
              x.median, x.min, x.max);
}

void run(const settings& s, const std::string& address) {
  using namespace std::chrono_literals;
  runtime actors;
  remote_node node{actors,
                   address,
                   {.connection = {.credentials = net::credentials{}},
                    .shared_memory = s.transport == "shm"}};
  const auto role = node.spawn<store_actor>("store");
  for (const std::size_t mib : {1, 64}) {
    const auto elements = static_cast<std::int64_t>(mib << 18);
    const auto value = tensor::full({elements}, 1);
    measure(s, "tensor to the role", mib, [&] {
      ask<std::int64_t>(actors.system(), "tensor", role, 30s, value);
    });
    measure(s, "tensor to the client", mib, [&] {
      ask<tensor>(actors.system(), "elements", role, 30s, elements);
    });
  }
}

} // namespace

int main(int argc, char** argv) {
  settings s;
  CLI::App app{"Measures requests with tensors to a role in another process"};
  app.add_option("--transport", s.transport)
    ->check(CLI::IsMember({"shm", "tcp"}));
  app.add_option("--rounds", s.rounds)->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  int address_pipe[2];
  if (::pipe(address_pipe) != 0)
    return 1;
  const auto child = ::fork();
  try {
    if (child == 0)
      return serve(address_pipe[1]);
    run(s, read_line(address_pipe[0]));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_remoting: %s\n", e.what());
    return 1;
  }
  ::kill(child, SIGTERM);
  ::waitpid(child, nullptr, 0);
}
