// Runs as one process of a job, for tests of failures. It sums with the other
// processes, and raises a signal or waits if the scenario says so.
//
//   reducer SCENARIO [MILLISECONDS]
//
// MILLISECONDS is the timeout of a sum. The program prints "sum <value>" for
// each sum to standard error. Before it raises a signal, it prints "raises at
// <time>". On an error, it prints "error <code>: <text>" and its report, and
// exits with code 3. The report is one line: "lost process <id> in step <step>,
// missed by replica <id> in bucket <bucket>, at <time>". Times are in
// milliseconds of the steady clock, which all processes of a host share.

#include <atomic>
#include <chrono>
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
  const strategy& workers;

  /// Runs one step in which each replica contributes ones. Returns an element
  /// of the sum.
  float sum_of_ones(std::int64_t elements) const {
    const auto sums = workers.run([&](replica_context& self) {
      const auto x = self.all_reduce(sum, tensor::full({elements}, 1));
      return x.data<float>().back();
    });
    return workers.local_results(sums).front();
  }
};

long long now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
           std::chrono::steady_clock::now().time_since_epoch())
    .count();
}

void raise_signal(int signal) {
  std::fprintf(stderr, "raises at %lld\n", now_ms());
  ::raise(signal);
}

// [doc:begin report]
/// Prints the process that was lost and the first role that waited for it.
void print_report(const failure_report& report) {
  if (report.processes.empty() || report.waits.empty())
    return;
  std::fprintf(
    stderr,
    "lost process %u in step %llu, missed by replica %u in bucket %u, at "
    "%lld\n",
    report.processes[0], static_cast<unsigned long long>(report.step),
    report.waits[0].id, report.waits[0].bucket, now_ms());
}
// [doc:end]

void print_sum(float value) {
  std::fprintf(stderr, "sum %g\n", static_cast<double>(value));
}

/// The leader begins a sum that no other worker begins.
void never_begin(const job& this_job) {
  while (!this_job.workers.is_chief())
    ::pause();
  const auto begin = now_ms();
  try {
    print_sum(this_job.sum_of_ones(4));
  } catch (const job_error&) {
    std::fprintf(stderr, "fails after %lld ms\n", now_ms() - begin);
    throw;
  }
}

/// Worker 1 raises the signal between two sums.
void end_after_sum(const job& this_job, int signal) {
  print_sum(this_job.sum_of_ones(1));
  if (this_job.workers.worker() == 1)
    raise_signal(signal);
  print_sum(this_job.sum_of_ones(1));
}

/// Worker 1 raises the signal between two sums. Worker 0 begins the second one
/// when it knows of the loss, so it learns of it outside of a run.
void end_outside_run(const job& this_job, int signal) {
  print_sum(this_job.sum_of_ones(1));
  if (this_job.workers.worker() == 1)
    raise_signal(signal);
  const auto deadline = now_ms() + 20'000;
  while (this_job.workers.explain().members.at(1).state == member_state::active
         && now_ms() < deadline)
    continue;
  print_sum(this_job.sum_of_ones(1));
}

/// A worker raises the signal between two sums of one step, while the other
/// workers wait for its contribution to the second sum. They print how often
/// they have called the function.
void end_during_step(const job& this_job, int signal, std::uint32_t worker) {
  const auto own = this_job.workers.worker();
  std::atomic<int> calls = 0;
  this_job.workers.run([&](replica_context& self) {
    ++calls;
    self.all_reduce(sum, tensor::full({1 << 20}, 1));
    if (own == worker)
      raise_signal(signal);
    self.all_reduce(sum, tensor::full({1 << 20}, 1));
  });
  std::fprintf(stderr, "two sums in %d calls, at %lld\n", calls.load(),
               now_ms());
}

/// In the second step, worker 1 waits for a byte in the fifo "go". The leader
/// prints the address and the secret file for status queries.
void wait_in_step(const job& this_job) {
  print_sum(this_job.sum_of_ones(1));
  if (this_job.workers.is_chief())
    std::fprintf(stderr, "ask %s %s\n",
                 tf_config().cluster_spec().task_address("worker", 0).c_str(),
                 std::getenv("TROUPE_SECRET_FILE"));
  this_job.workers.run([&](replica_context& self) {
    if (this_job.workers.worker() == 1)
      std::ifstream{"go"}.get();
    self.all_reduce(sum, tensor::full({1 << 20}, 1));
  });
}

void run_scenario(const std::string& scenario, const job& this_job) {
  if (scenario == "absent")
    never_begin(this_job);
  else if (scenario == "killed-between")
    end_after_sum(this_job, SIGKILL);
  else if (scenario == "killed-outside")
    end_outside_run(this_job, SIGKILL);
  else if (scenario == "killed-amid")
    end_during_step(this_job, SIGKILL, 1);
  else if (scenario == "leader-killed-amid")
    end_during_step(this_job, SIGKILL, 0);
  else if (scenario == "stopped-amid")
    end_during_step(this_job, SIGSTOP, 1);
  else if (scenario == "held")
    wait_in_step(this_job);
  else
    for (int i = 0; i < 3 || scenario == "long"; ++i)
      print_sum(this_job.sum_of_ones(100'000));
}

} // namespace

int main(int argc, char** argv) {
  const std::string scenario = argc > 1 ? argv[1] : "well";
  multi_worker_options options;
  options.communication.timeout =
    std::chrono::milliseconds{argc > 2 ? std::atoi(argv[2]) : 20'000};
  try {
    runtime actors;
    const multi_worker_mirrored_strategy workers{actors, tf_config(), options};
    run_scenario(scenario, {workers});
    return 0;
  } catch (const job_error& e) {
    std::fprintf(stderr, "error %s: %s\n", to_string(e.code).c_str(), e.what());
    print_report(e.report());
    return 3;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "failed: %s\n", e.what());
    return 1;
  }
}
