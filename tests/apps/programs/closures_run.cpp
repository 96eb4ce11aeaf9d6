// A coordinator for tests: closures_run COUNT SERVERS WORKERS [CLOSURE COPIES]
//
// SERVERS and WORKERS are addresses of nodes with commas; the workers are
// closures_node. Executes the closure "move", or another one, COUNT times. Each
// line of the input is the address of a worker to add, "server" and that of a
// server, or "go". Prints a line for each tenth of the closures that was
// scheduled, and at the end "n N x X y Y": the variables.
//
// With COPIES, it waits for "go" after each of these lines, and prints "in
// sync" when all copies of the servers are. The last line ends with "gap" and
// the longest time in milliseconds between two reads of one server that went on
// all the time.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <iostream>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <troupe/troupe.hpp>
#include <vector>

namespace {

using namespace troupe;
using namespace std::chrono_literals;

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in{text};
  for (std::string one; std::getline(in, one, ',');)
    out.push_back(one);
  return out;
}

/// Counts the lines "go" of the input.
class starts {
public:
  void add(int count) {
    const std::lock_guard hold{lock_};
    count_ += count;
    added_.notify_all();
  }
  void take() {
    std::unique_lock hold{lock_};
    added_.wait(hold, [this] { return count_ > 0; });
    --count_;
  }

private:
  std::mutex lock_;
  std::condition_variable added_;
  int count_ = 0;
};

/// Reads variables all the time, one thread for each, and keeps the longest
/// time between two answers.
class reads {
public:
  explicit reads(const std::vector<server_variable>& variables) {
    for (const auto& one : variables)
      threads_.emplace_back([this, one] { run(one); });
  }

  ~reads() { end(); }
  reads(const reads&) = delete;
  reads& operator=(const reads&) = delete;

  std::int64_t longest_gap_ms() {
    end();
    return longest_;
  }

private:
  void end() {
    {
      const std::lock_guard hold{lock_};
      stopped_ = true;
    }
    ended_.notify_all();
    threads_.clear(); // each is joined
  }

  void run(const server_variable& variable) {
    auto last = std::chrono::steady_clock::now();
    for (;;) {
      variable.value();
      const auto now = std::chrono::steady_clock::now();
      const auto gap =
        std::chrono::duration_cast<std::chrono::milliseconds>(now - last)
          .count();
      for (auto seen = longest_.load();
           gap > seen && !longest_.compare_exchange_weak(seen, gap);) {
      }
      last = now;
      std::unique_lock hold{lock_};
      if (ended_.wait_for(hold, 2ms, [this] { return stopped_; }))
        return;
    }
  }

  std::mutex lock_; // guards `stopped_`
  std::condition_variable ended_;
  bool stopped_ = false;
  std::atomic<std::int64_t> longest_ = 0;
  std::vector<std::jthread> threads_;
};

int run(int count, const std::vector<std::string>& servers,
        const std::vector<std::string>& workers, const std::string& closure,
        std::uint32_t copies) {
  log_from(log_level::error); // the loss of a worker is a warning
  runtime actors;
  const parameter_server_strategy strategy{
    actors, {.nodes = servers, .copies = copies}};
  const auto x = strategy.make_variable("x", tensor::full({}, 100)),
             y = strategy.make_variable("y", tensor::full({}, 0)),
             n = strategy.make_variable("n", tensor::full({}, 0));
  cluster_coordinator coordinator{
    strategy, {.in_flight = 2, .nodes = workers, .closures = "moves"}};
  std::mutex output;
  const auto print = [&](const std::string& line) {
    const std::lock_guard hold{output};
    std::cout << line << std::endl;
  };
  const bool has_copies = copies > 1;
  const auto wait_for_copies = [&] {
    if (strategy.wait_for_copies(60s))
      print("in sync");
  };
  std::atomic<bool> failed = false;
  starts go;
  std::thread adds{[&] {
    for (std::string line; std::getline(std::cin, line);)
      try {
        const std::string server = "server ";
        if (line == "go") {
          go.add(1);
        } else if (line.starts_with(server)) {
          strategy.add_server(line.substr(server.size()));
          wait_for_copies();
        } else {
          coordinator.add_worker(line);
        }
      } catch (const job_error& e) { // it was killed meanwhile
        std::cerr << e.what() << '\n';
      } catch (const std::exception& e) {
        std::cerr << e.what() << '\n';
        failed = true;
      }
    go.add(count);
  }};
  if (has_copies)
    wait_for_copies();
  reads probe{has_copies ? std::vector{x, y, n}
                         : std::vector<server_variable>{}};
  for (int i = 0; i < count; ++i) {
    if (i % std::max(1, count / 10) == 0) {
      coordinator.join();
      print("scheduled " + std::to_string(i));
      if (has_copies)
        go.take();
    }
    coordinator.schedule_named(closure);
  }
  coordinator.join();
  const auto gap = probe.longest_gap_ms();
  const auto number = [](const server_variable& v) {
    return v.value().item<float>();
  };
  std::ostringstream last;
  last << "n " << number(n) << " x " << number(x) << " y " << number(y);
  if (has_copies)
    last << " gap " << gap;
  print(last.str());
  adds.join();
  return failed ? 1 : 0;
}

} // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 4 && argc != 6)
      throw std::invalid_argument(
        "give COUNT SERVERS WORKERS [CLOSURE COPIES]");
    return run(std::stoi(argv[1]), split(argv[2]), split(argv[3]),
               argc == 6 ? argv[4] : "move",
               argc == 6 ? std::uint32_t(std::stoul(argv[5])) : 1);
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
