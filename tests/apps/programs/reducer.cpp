// One process of a job, for tests of failures. It sums with the other processes
// and raises a signal or waits as its scenario says.
//
//   reducer SCENARIO [MILLISECONDS]
//
// MILLISECONDS is the timeout of a sum. Lines on standard error: "sum <value>"
// for each sum, and "error <code>: <text>" for an error (exit code 3).

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <troupe/troupe.hpp>
#include <unistd.h>

namespace {

using namespace troupe;

struct job {
  const strategy& all;

  /// Runs one step in which each replica contributes ones.
  float sum_of_ones(std::int64_t elements) const {
    const auto sums = all.run([&](replica_context& self) {
      const auto x = self.all_reduce(sum, tensor::full({elements}, 1));
      return x.data<float>().back();
    });
    return all.local_results(sums).front();
  }
};

void say(float x) {
  std::fprintf(stderr, "sum %g\n", static_cast<double>(x));
}

/// Acceptance case: all workers except the leader never begin.
void absent(const job& x) {
  while (!x.all.is_chief())
    ::pause();
  say(x.sum_of_ones(4));
}

/// Acceptance case: the other worker ends after one sum.
void between(const job& x, int signal) {
  say(x.sum_of_ones(1));
  if (x.all.worker() == 1)
    ::raise(signal);
  say(x.sum_of_ones(1));
}

/// A worker ends during a step, while the others wait for its contribution.
void amid(const job& x, int signal, std::uint32_t worker) {
  x.all.run([&](replica_context& self) {
    self.all_reduce(sum, tensor::full({1 << 20}, 1));
    if (x.all.worker() == worker)
      ::raise(signal);
    self.all_reduce(sum, tensor::full({1 << 20}, 1));
  });
}

/// In the second step, worker 1 waits for a byte in the fifo "go". The leader
/// writes the address and the secret file for status queries.
void held(const job& x) {
  say(x.sum_of_ones(1));
  if (x.all.is_chief())
    std::fprintf(stderr, "ask %s %s\n",
                 tf_config().cluster_spec().task_address("worker", 0).c_str(),
                 std::getenv("TROUPE_SECRET_FILE"));
  x.all.run([&](replica_context& self) {
    if (x.all.worker() == 1)
      std::ifstream{"go"}.get();
    self.all_reduce(sum, tensor::full({1 << 20}, 1));
  });
}

void play(const std::string& scenario, const job& x) {
  if (scenario == "absent")
    absent(x);
  else if (scenario == "killed-between")
    between(x, SIGKILL);
  else if (scenario == "killed-amid")
    amid(x, SIGKILL, 1);
  else if (scenario == "leader-killed-amid")
    amid(x, SIGKILL, 0);
  else if (scenario == "stopped-amid")
    amid(x, SIGSTOP, 1);
  else if (scenario == "held")
    held(x);
  else
    for (int i = 0; i < 3 || scenario == "long"; ++i)
      say(x.sum_of_ones(100'000));
}

} // namespace

int main(int argc, char** argv) {
  const std::string scenario = argc > 1 ? argv[1] : "well";
  multi_worker_options options;
  options.communication.timeout =
    std::chrono::milliseconds{argc > 2 ? std::atoi(argv[2]) : 20'000};
  try {
    runtime actors;
    const multi_worker_mirrored_strategy all{actors, tf_config(), options};
    play(scenario, {all});
    return 0;
  } catch (const failure& e) {
    std::fprintf(stderr, "error %s: %s\n", to_string(e.code).c_str(), e.what());
    return 3;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "failed: %s\n", e.what());
    return 1;
  }
}
