// A program of a job of many processes, for tests of what happens when one of
// them dies: sums with the others, and does to itself what it is told.
//
//   reducer SCENARIO [MILLISECONDS]
//
// A sum takes at most so long. What a worker hears is a line on standard error:
// "heard <code>: <text>", with exit code 3; a sum is "sum <value>".

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

  /// One step in which everybody brings a 1.
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

/// Acceptance case: all but the leader never begin.
void absent(const job& x) {
  while (!x.all.is_chief())
    ::pause();
  say(x.sum_of_ones(4));
}

/// Acceptance case: one sum, and then the other worker is gone.
void between(const job& x, int signal) {
  say(x.sum_of_ones(1));
  if (x.all.worker() == 1)
    ::raise(signal);
  say(x.sum_of_ones(1));
}

/// It goes in the middle of a step, when the others wait for its part.
void amid(const job& x, int signal, std::uint32_t worker) {
  x.all.run([&](replica_context& self) {
    self.all_reduce(sum, tensor::full({1 << 20}, 1));
    if (x.all.worker() == worker)
      ::raise(signal);
    self.all_reduce(sum, tensor::full({1 << 20}, 1));
  });
}

/// Its second step waits, in worker 1, for a byte in the fifo "go"; the leader
/// says by which address and secret it may be asked how it does.
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
    std::fprintf(stderr, "heard %s: %s\n", to_string(e.code).c_str(), e.what());
    return 3;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "failed: %s\n", e.what());
    return 1;
  }
}
