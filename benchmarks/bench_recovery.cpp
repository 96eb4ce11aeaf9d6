// Measures how long a job of several processes stands still when a process is
// killed or stopped, and when a process joins in its place.

#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/benchmarks/fit_runner.hpp"
#include "troupe/benchmarks/options.hpp"
#include "troupe/benchmarks/timing.hpp"
#include "troupe/benchmarks/workload.hpp"
#include "troupe/net/base/descriptor.hpp"
#include "troupe/net/cluster/launcher_link.hpp"
#include "troupe/net/cluster/simple_resolver.hpp"
#include "troupe/net/io/reserved_ports.hpp"
#include "troupe/training/strategies/multi_worker.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

using namespace troupe;
using namespace troupe::benchmarks;
using namespace std::chrono_literals;

/// Maximum wait for anything that the workers have to do.
constexpr auto patience = 120s;

std::int64_t now_ns() {
  return clock::now().time_since_epoch() / 1ns;
}

/// What the parent sees of a worker, in shared memory. Times are those of
/// `clock`, which all processes share.
struct worker_record {
  std::atomic<std::uint64_t> steps; ///< Steps whose callback this process ran.
  std::atomic<std::int64_t> first_ns, last_ns; ///< Time of such a step.
  std::atomic<std::int64_t> longest_ns;        ///< Between two, since `watch`.
  /// The end of the longest time between two of the first `after_kill` steps
  /// since `watch`. A step that was complete when a process was killed still
  /// ends; the job stands still after it.
  std::atomic<std::int64_t> stall_ns, stall_end_ns;
  std::atomic<std::uint32_t> watched; ///< Steps since `watch`.
  static constexpr std::uint32_t after_kill = 4;

  void on_step() {
    const auto now = now_ns();
    if (steps == 0)
      first_ns = now;
    else if (const auto length = now - last_ns) {
      longest_ns = std::max(longest_ns.load(), length);
      if (watched++ < after_kill && length > stall_ns) {
        stall_ns = length;
        stall_end_ns = now;
      }
    }
    last_ns = now;
    ++steps;
  }
  void watch() {
    longest_ns = stall_ns = 0;
    watched = 0;
  }
  void begin() {
    steps = 0;
    watch();
  }
};

/// One record for each worker, in memory that forked processes share.
class shared_records {
public:
  explicit shared_records(std::uint32_t count)
    : bytes_{count * sizeof(worker_record)} {
    auto* const memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      throw std::bad_alloc{};
    records_ = new (memory) worker_record[count]{};
  }
  ~shared_records() { ::munmap(records_, bytes_); }
  shared_records(const shared_records&) = delete;
  shared_records& operator=(const shared_records&) = delete;

  worker_record& operator[](std::uint32_t worker) { return records_[worker]; }

private:
  std::size_t bytes_;
  worker_record* records_;
};

/// The launcher's end of the link to a worker. As `troupe train --workers`, it
/// kills the process that the worker reports as unreachable.
class witness {
public:
  witness() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0)
      throw std::runtime_error("socketpair failed");
    own_ = net::descriptor{ends[0]};
    workers_ = net::descriptor{ends[1]};
    listens_ = std::thread{[this] { listen(); }};
  }
  ~witness() {
    ::shutdown(own_.get(), SHUT_RDWR);
    listens_.join();
  }
  witness(const witness&) = delete;
  witness& operator=(const witness&) = delete;

  /// Called in the worker's process.
  void give_to_this_process() const {
    ::setenv(net::launcher_link::variable,
             std::to_string(workers_.get()).c_str(), 1);
  }

private:
  void listen() const {
    std::string text;
    std::array<char, 256> buffer{};
    for (;;) {
      const auto n = ::recv(own_.get(), buffer.data(), buffer.size(), 0);
      if (n <= 0)
        return;
      text.append(buffer.data(), std::size_t(n));
      for (auto end = text.find('\n'); end != text.npos;
           end = text.find('\n')) {
        int process = 0;
        if (std::sscanf(text.c_str(), "unreachable %d", &process) == 1
            && process > 1)
          ::kill(process, SIGKILL);
        text.erase(0, end + 1);
      }
    }
  }

  net::descriptor own_, workers_;
  std::thread listens_;
};

struct figures {
  double step_s = 0; ///< Undisturbed.
  /// Seconds by event. `kills`: from the signal to the next step. `joins`:
  /// longest time between two steps of the others during a join. `first_steps`:
  /// from the start of the process that joins to its first step.
  std::vector<double> kills, joins, first_steps;
  double copy_s = 0; ///< One copy of the parameters.
};

/// A job whose workers are children of this process.
class churning_job {
public:
  /// @param fault signal that an event sends to its victim.
  /// @param steps of a worker between two events.
  /// @param copies_ahead a process that joins copies a large state before.
  churning_job(const training_options& o, std::uint32_t workers, int fault,
               std::uint64_t steps, bool copies_ahead)
    : steps_between{steps},
      options_{o},
      fault_{fault},
      copies_ahead_{copies_ahead},
      ports_{workers},
      records_{workers},
      children_(workers) {
    for (std::uint32_t w = 0; w < workers; ++w)
      start(w, false);
    for (std::uint32_t w = 0; w < workers; ++w)
      wait_for_steps(w, steps_between);
  }
  ~churning_job() {
    for (const auto one : children_)
      ::kill(one, SIGKILL);
    for (const auto one : children_)
      ::waitpid(one, nullptr, 0);
  }
  churning_job(const churning_job&) = delete;
  churning_job& operator=(const churning_job&) = delete;

  /// Returns the mean time of a step, in seconds.
  double time_steps() {
    const auto first = records_[0].steps.load();
    const auto begin = clock::now();
    wait_for_steps(0, first + 5 * steps_between);
    return seconds_since(begin) / double(records_[0].steps - first);
  }

  /// Kills or stops a worker, and starts it again.
  void disturb(std::uint32_t victim, figures& out) {
    for_others(victim, [](worker_record& x) { x.watch(); });
    const auto killed = now_ns();
    ::kill(children_[victim], fault_);
    if (fault_ == SIGKILL)
      ::waitpid(children_[victim], nullptr, 0);
    wait_for_others(victim);
    if (fault_ != SIGKILL) { // the others go on without it
      ::kill(children_[victim], SIGKILL);
      ::waitpid(children_[victim], nullptr, 0);
    }
    std::int64_t end = 0;
    for_others(victim, [&](worker_record& x) {
      end = std::max(end, x.stall_end_ns.load());
    });
    out.kills.push_back(double(end - killed) * 1e-9);

    for_others(victim, [](worker_record& x) { x.watch(); });
    const auto started = now_ns();
    start(victim, true);
    wait_for_steps(victim, steps_between);
    wait_for_others(victim);
    std::int64_t longest = 0;
    for_others(victim, [&](worker_record& x) {
      longest = std::max(longest, x.longest_ns.load());
    });
    out.joins.push_back(double(longest) * 1e-9);
    out.first_steps.push_back(double(records_[victim].first_ns - started)
                              * 1e-9);
  }

private:
  std::uint32_t workers() const {
    return static_cast<std::uint32_t>(children_.size());
  }
  template <class F>
  void for_others(std::uint32_t victim, F&& fn) {
    for (std::uint32_t w = 0; w < workers(); ++w)
      if (w != victim)
        fn(records_[w]);
  }

  void start(std::uint32_t worker, bool joins) {
    records_[worker].begin();
    const auto child = ::fork();
    if (child != 0) {
      children_[worker] = child;
      return;
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    witness_.give_to_this_process();
    try {
      run(worker, joins);
      std::fprintf(stderr, "worker %u has ended\n", worker);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "worker %u: %s\n", worker, e.what());
    }
    ::_exit(1);
  }

  void run(std::uint32_t worker, bool joins) {
    net::cluster_spec::list addresses;
    for (const auto port : ports_.numbers())
      addresses.push_back("127.0.0.1:" + std::to_string(port));
    runtime actors;
    multi_worker_options how;
    how.join_running_job = joins;
    if (!copies_ahead_)
      how.copy_ahead_bytes = std::numeric_limits<std::size_t>::max();
    how.log = [](net::severity, const std::string&) {};
    const multi_worker_mirrored_strategy on{
      actors,
      net::simple_resolver{
        net::cluster_spec{std::map<std::string, net::cluster_spec::list>{
          {"worker", addresses}}},
        {.task_type = "worker", .task_id = worker}},
      how};
    fit_runner{options_.model, options_.batch, on}.fit([&](std::uint64_t) {
      records_[worker].on_step();
      return true;
    });
  }

  /// Waits until all other workers have made further steps.
  void wait_for_others(std::uint32_t victim) {
    std::vector<std::uint64_t> before(workers());
    for (std::uint32_t w = 0; w < workers(); ++w)
      before[w] = records_[w].steps;
    for (std::uint32_t w = 0; w < workers(); ++w)
      if (w != victim)
        wait_for_steps(w, before[w] + steps_between);
  }

  void wait_for_steps(std::uint32_t worker, std::uint64_t steps) {
    const auto end = clock::now() + patience;
    while (records_[worker].steps < steps) {
      if (clock::now() > end)
        throw std::runtime_error("worker " + std::to_string(worker)
                                 + " has made only "
                                 + std::to_string(records_[worker].steps)
                                 + " of " + std::to_string(steps) + " steps");
      std::this_thread::sleep_for(1ms);
    }
  }

  const std::uint64_t steps_between;
  training_options options_;
  int fault_;
  bool copies_ahead_;
  witness witness_;
  net::reserved_ports ports_;
  shared_records records_;
  std::vector<pid_t> children_;
};

/// Returns the median of the seconds that a thread needs to copy the parameters
/// of a model into new memory. A process that gives its state to another one
/// makes such a copy.
double time_copy(const std::string& model) {
  std::size_t count = 0;
  for (const auto& one : find_workload(model).parameters)
    count += one.dims.elements();
  const std::vector<float> state(count, 1.0F);
  std::vector<double> times;
  for (int i = 0; i < 5; ++i) {
    const auto begin = clock::now();
    const auto copy = std::make_unique_for_overwrite<float[]>(count);
    std::ranges::copy(state, copy.get());
    if (copy[count - 1] != 1.0F)
      throw std::logic_error("the copy differs");
    times.push_back(seconds_since(begin));
  }
  return median(times);
}

/// Returns the smallest value that is not below 99% of the values.
double p99(std::vector<double> xs) {
  std::ranges::sort(xs);
  return xs[std::min(xs.size() - 1, xs.size() * 99 / 100)];
}

void print(const std::string& name, const figures& found, bool json) {
  const auto ms = [](double seconds) { return 1e3 * seconds; };
  if (json)
    std::cout
      << nlohmann::json{{"case", name},
                        {"events", found.kills.size()},
                        {"step_ms", ms(found.step_s)},
                        {"kill_ms", ms(median(found.kills))},
                        {"kill_p99_ms", ms(p99(found.kills))},
                        {"copy_ms", ms(found.copy_s)},
                        {"join_ms", ms(median(found.joins))},
                        {"join_p99_ms", ms(p99(found.joins))},
                        {"first_step_ms", ms(median(found.first_steps))},
                        {"first_step_p99_ms", ms(p99(found.first_steps))}}
      << '\n';
  else
    std::printf(
      "%s: step %.2f ms; %zu events, median and p99 in ms: from the signal to "
      "the "
      "next step %.0f, %.0f; longest step during a join %.0f, %.0f; from the "
      "start of the joining process to its first step %.0f, %.0f\n",
      name.c_str(), ms(found.step_s), found.kills.size(),
      ms(median(found.kills)), ms(p99(found.kills)), ms(median(found.joins)),
      ms(p99(found.joins)), ms(median(found.first_steps)),
      ms(p99(found.first_steps)));
}

} // namespace

int main(int argc, char** argv) {
  training_options o;
  std::uint32_t workers = 4, events = 200;
  std::uint64_t seed = 1, steps = 100;
  bool copy_after = false;
  std::string which = "any", signal = "KILL";
  bool json = false;
  CLI::App app{"Trains over processes, kills or stops a worker, starts it "
               "again and lets it join, again and again. Prints for how long "
               "the others stood still."};
  app.add_option("--model", o.model)->capture_default_str();
  app.add_option("--batch", o.batch, "examples per replica and step")
    ->check(CLI::Range(1, 1 << 20))
    ->capture_default_str();
  app.add_option("--workers", workers)
    ->check(CLI::Range(2, 64))
    ->capture_default_str();
  app.add_option("--events", events)
    ->check(CLI::Range(1, 100000))
    ->capture_default_str();
  app.add_option("--kill", which, "which worker")
    ->check(CLI::IsMember({"any", "chief", "other"}))
    ->capture_default_str();
  app.add_option("--signal", signal, "STOP: the worker falls silent for good")
    ->check(CLI::IsMember({"KILL", "STOP"}))
    ->capture_default_str();
  app.add_option("--steps", steps, "of each worker between two events")
    ->check(CLI::Range(5, 100000))
    ->capture_default_str();
  app.add_flag("--copy-after-join", copy_after,
               "a large state is copied while the others wait");
  app.add_option("--seed", seed, "of the choice of workers")
    ->capture_default_str();
  app.add_flag("--json", json, "one line of JSON");
  return run_main(app, argc, argv, [&] {
    figures found;
    found.copy_s = time_copy(o.model);
    churning_job job{o, workers, signal == "STOP" ? SIGSTOP : SIGKILL, steps,
                     !copy_after};
    found.step_s = job.time_steps();
    std::mt19937_64 dice{seed};
    std::uniform_int_distribution<std::uint32_t> choice{
      which == "other" ? 1u : 0u, which == "chief" ? 0u : workers - 1};
    for (std::uint32_t i = 0; i < events; ++i)
      job.disturb(choice(dice), found);
    print(o.model + "/b" + std::to_string(o.batch) + "/w"
            + std::to_string(workers) + "/" + which + "/" + signal,
          found, json);
  });
}
