// Simulates jobs under random plans of faults, and checks that they go on as an
// undisturbed job (simulation/recovery_check.hpp). Prints the seed and the plan
// of each job that does not. At the end, prints how many distinct pairs of a
// state and a fault were reached.

#include "troupe/actors/core/log.hpp"
#include "troupe/simulation/recovery_check.hpp"

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace troupe::simulation;

struct settings {
  std::uint64_t seed = 1, jobs = 1000;
  unsigned workers = std::max(std::thread::hardware_concurrency(), 1u);
  std::uint64_t max_failures = 10;
  bool verbose = false;
  bool list = false;
};

/// Sums over jobs.
struct tally {
  std::uint64_t jobs = 0, failures = 0, faults = 0, changes = 0, completed = 0,
                joined = 0, left = 0, delivered = 0;
  double longest = 0;
  std::set<std::string> reached;
};

void print_seed(std::uint64_t seed, const std::string& plan,
                const std::string& failure) {
  std::printf("seed %llu: %s\n  %s\n", static_cast<unsigned long long>(seed),
              plan.c_str(), failure.c_str());
  std::fflush(stdout);
}

/// @param current receives the seed of each job before it begins.
void run_jobs(const settings& of, unsigned worker, std::FILE* out,
              std::atomic<std::uint64_t>& current) {
  tally sum;
  for (auto seed = of.seed + worker; seed < of.seed + of.jobs;
       seed += of.workers) {
    current = seed;
    if (of.verbose) {
      std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed),
                  to_string(random_recovery_plan(seed)).c_str());
      std::fflush(stdout);
    }
    const auto result = check_recovery(seed);
    ++sum.jobs;
    sum.faults += result.fired;
    sum.changes += result.view_changes;
    sum.completed += result.completed > 0;
    sum.joined += result.joined;
    sum.left += result.left;
    sum.delivered += result.delivered;
    sum.longest = std::max(sum.longest, result.seconds);
    sum.reached.insert(result.reached.begin(), result.reached.end());
    if (result.failure.empty())
      continue;
    print_seed(seed, result.plan, result.failure);
    if (++sum.failures == of.max_failures)
      break;
  }
  std::fprintf(out, "%llu %llu %llu %llu %llu %llu %llu %llu %f\n",
               static_cast<unsigned long long>(sum.jobs),
               static_cast<unsigned long long>(sum.failures),
               static_cast<unsigned long long>(sum.faults),
               static_cast<unsigned long long>(sum.changes),
               static_cast<unsigned long long>(sum.completed),
               static_cast<unsigned long long>(sum.joined),
               static_cast<unsigned long long>(sum.left),
               static_cast<unsigned long long>(sum.delivered), sum.longest);
  for (const auto& one : sum.reached)
    std::fprintf(out, "%s\n", one.c_str());
  std::fclose(out);
}

/// @returns false if the worker has crashed.
bool read_tally(std::FILE* in, tally& sum) {
  unsigned long long x[8];
  double longest = 0;
  if (std::fscanf(in, "%llu %llu %llu %llu %llu %llu %llu %llu %lf\n", &x[0],
                  &x[1], &x[2], &x[3], &x[4], &x[5], &x[6], &x[7], &longest)
      != 9)
    return false;
  sum.jobs += x[0];
  sum.failures += x[1];
  sum.faults += x[2];
  sum.changes += x[3];
  sum.completed += x[4];
  sum.joined += x[5];
  sum.left += x[6];
  sum.delivered += x[7];
  sum.longest = std::max(sum.longest, longest);
  char line[200];
  while (std::fgets(line, sizeof line, in))
    sum.reached.insert(line);
  return true;
}

} // namespace

int main(int argc, char** argv) {
  settings of;
  CLI::App app{"Simulates jobs under random faults, and checks that they go on "
               "as an undisturbed job."};
  app.add_option("--seed", of.seed, "Seed of the first job.");
  app.add_option("--jobs", of.jobs, "Number of jobs, with consecutive seeds.");
  app
    .add_option("--processes", of.workers,
                "Number of processes that simulate. Default: the cores.")
    ->check(CLI::Range(1, 1024));
  app.add_option("--max-failures", of.max_failures,
                 "Each process ends after this many failures.");
  app.add_flag("--verbose", of.verbose, "Print each plan before its job.");
  app.add_flag("--list", of.list, "Print the pairs of a state and a fault.");
  CLI11_PARSE(app, argc, argv);
  troupe::log_from(of.jobs == 1 ? troupe::log_level::warning
                                : troupe::log_level::off);
  const auto begin = std::chrono::steady_clock::now();
  // Memory that the processes share, by number of the process.
  const auto size = of.workers * sizeof(std::atomic<std::uint64_t>);
  void* const shared = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED)
    return 1;
  auto* const seeds = static_cast<std::atomic<std::uint64_t>*>(shared);
  std::vector<std::pair<pid_t, std::FILE*>> workers;
  for (unsigned w = 0; w < of.workers; ++w) {
    int ends[2];
    if (::pipe(ends) != 0)
      return 1;
    const auto pid = ::fork();
    if (pid < 0)
      return 1;
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL); // ends with its parent
      ::close(ends[0]);
      run_jobs(of, w, ::fdopen(ends[1], "w"), seeds[w]);
      ::_exit(0);
    }
    ::close(ends[1]);
    workers.emplace_back(pid, ::fdopen(ends[0], "r"));
  }
  tally sum;
  unsigned crashed = 0;
  for (unsigned w = 0; w < of.workers; ++w) {
    const auto& [pid, in] = workers[w];
    if (!read_tally(in, sum)) {
      ++crashed;
      print_seed(seeds[w], to_string(random_recovery_plan(seeds[w])),
                 "its process has crashed");
    }
    std::fclose(in);
    ::waitpid(pid, nullptr, 0);
  }
  const std::chrono::duration<double> seconds =
    std::chrono::steady_clock::now() - begin;
  if (of.list)
    for (const auto& one : sum.reached)
      std::printf("  %s", one.c_str());
  std::printf(
    "%llu jobs, %llu failed; %llu faults, %llu view changes; %llu jobs "
    "completed, %llu processes joined, %llu left; %zu distinct pairs of a "
    "state and a fault; longest job %.1f s of virtual time; %.0f jobs per "
    "minute and process, %.0f messages per job\n",
    static_cast<unsigned long long>(sum.jobs),
    static_cast<unsigned long long>(sum.failures),
    static_cast<unsigned long long>(sum.faults),
    static_cast<unsigned long long>(sum.changes),
    static_cast<unsigned long long>(sum.completed),
    static_cast<unsigned long long>(sum.joined),
    static_cast<unsigned long long>(sum.left), sum.reached.size(), sum.longest,
    double(sum.jobs) / (seconds.count() / 60) / of.workers,
    double(sum.delivered) / double(std::max<std::uint64_t>(sum.jobs, 1)));
  return sum.failures > 0 || crashed > 0 ? 1 : 0;
}
