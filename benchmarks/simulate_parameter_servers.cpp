// Runs jobs of the parameter-server and coordinator protocols under random
// faults, in virtual time, and checks them: the protocols by themselves
// (tests/strategies/random_job.hpp), and the actors of a training
// (tests/actors/shard/random_training.cpp).
// Prints the seed of each job that fails. At the end it prints how often each
// fault took place, and how many pairs of a fault and a state of a process were
// reached.

#include "troupe/actors/core/log.hpp"
#include "troupe/tests/actors/shard/random_training.hpp"
#include "troupe/tests/strategies/random_jobs.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

std::vector<troupe::job_protocol> all_protocols() {
  auto out = troupe::job_protocols();
  out.push_back({"actors", troupe::make_random_training});
  return out;
}

struct settings {
  std::uint64_t seed = 1, jobs = 1000;
  unsigned threads = std::max(std::thread::hardware_concurrency(), 1u);
  std::uint64_t max_failures = 10;
  bool list = false;
};

/// Sums over jobs.
struct tally {
  std::uint64_t jobs = 0, failures = 0;
  std::map<std::string_view, std::uint64_t> counts;
  std::set<std::string> reached;
};

/// Runs the jobs of one protocol on several threads.
class protocol_run {
public:
  protocol_run(const troupe::job_protocol& protocol, const settings& of)
    : protocol_{protocol}, of_{of} {}

  tally run() {
    const auto begin = std::chrono::steady_clock::now();
    {
      std::vector<std::jthread> threads;
      for (unsigned i = 0; i < of_.threads; ++i)
        threads.emplace_back([this] { run_jobs(); });
    }
    const std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - begin;
    std::printf("%s: %llu jobs, %llu failed; %zu distinct pairs of a fault and "
                "a state; %.0f jobs per minute\n",
                protocol_.name.c_str(), number(sum_.jobs),
                number(sum_.failures), sum_.reached.size(),
                double(sum_.jobs) / (seconds.count() / 60));
    for (const auto& [event, times] : sum_.counts)
      std::printf("  %10llu %.*s\n", number(times), int(event.size()),
                  event.data());
    if (of_.list)
      for (const auto& one : sum_.reached)
        std::printf("  %s\n", one.c_str());
    std::fflush(stdout);
    return std::move(sum_);
  }

private:
  static unsigned long long number(std::uint64_t x) { return x; }

  void run_jobs() {
    tally mine;
    while (failures_ < of_.max_failures) {
      const auto i = next_++;
      if (i >= of_.jobs)
        break;
      run_job(of_.seed + i, mine);
    }
    const std::lock_guard lock{mutex_};
    sum_.jobs += mine.jobs;
    sum_.failures += mine.failures;
    for (const auto& [event, times] : mine.counts)
      sum_.counts[event] += times;
    sum_.reached.merge(mine.reached);
  }

  void run_job(std::uint64_t seed, tally& into) {
    std::unique_ptr<troupe::checked_job> job;
    std::string problem;
    try {
      job = protocol_.make(seed);
      problem = job->run();
    } catch (const std::exception& e) {
      problem = std::string{"an exception: "} + e.what();
    }
    ++into.jobs;
    if (job) {
      for (const auto& [event, times] : job->counts())
        into.counts[event] += times;
      into.reached.insert(job->reached().begin(), job->reached().end());
    }
    if (problem.empty())
      return;
    ++into.failures;
    ++failures_;
    const std::lock_guard lock{mutex_};
    std::printf("seed %llu: %s\n  --protocol %s --jobs 1 --seed %llu runs it "
                "again\n",
                number(seed), problem.c_str(), protocol_.name.c_str(),
                number(seed));
    std::fflush(stdout);
  }

  const troupe::job_protocol& protocol_;
  const settings& of_;
  std::atomic<std::uint64_t> next_ = 0, failures_ = 0;
  std::mutex mutex_; ///< Guards `sum_` and the output.
  tally sum_;
};

} // namespace

int main(int argc, char** argv) {
  settings of;
  std::string only = "all";
  std::vector<std::string> names{only};
  const auto protocols = all_protocols();
  for (const auto& one : protocols)
    names.push_back(one.name);
  CLI::App app{"Runs jobs of the parameter-server and coordinator protocols "
               "under random faults, and checks them."};
  app.add_option("--seed", of.seed, "Seed of the first job.");
  app.add_option("--jobs", of.jobs,
                 "Number of jobs of each protocol, with consecutive seeds.");
  app.add_option("--protocol", only, "The protocol. Default: all.")
    ->check(CLI::IsMember(names));
  app
    .add_option("--threads", of.threads,
                "Number of threads that run jobs. Default: the cores.")
    ->check(CLI::Range(1, 1024));
  app.add_option("--max-failures", of.max_failures,
                 "Ends after this many failures of a protocol.");
  app.add_flag("--list", of.list, "Print the pairs of a fault and a state.");
  CLI11_PARSE(app, argc, argv);
  std::uint64_t failures = 0;
  troupe::log_to([](troupe::log_level, std::string_view) {});
  for (const auto& one : protocols)
    if (only == "all" || only == one.name)
      failures += protocol_run{one, of}.run().failures;
  return failures > 0 ? 1 : 0;
}
