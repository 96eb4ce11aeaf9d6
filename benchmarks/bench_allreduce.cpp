// Measures the time of an all-reduce (sum, float32) between processes of this
// host. A step function calls replica.all_reduce several times, each time after
// a barrier, as the programs of the peers do. Each process has one replica and
// one thread. The printed times are those of rank 0.

#include "troupe/benchmarks/local_job.hpp"
#include "troupe/benchmarks/options.hpp"

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

namespace {

using namespace troupe;
using namespace troupe::benchmarks;

struct allreduce_options {
  std::uint32_t ranks = 2;
  std::string transport = "auto";
  std::string implementation = "tree";
  std::vector<std::uint64_t> sizes{4 << 10, 64 << 10, 1 << 20, 16 << 20,
                                   64 << 20};
  /// Number of tensors that one call reduces. Each of them has the number of
  /// bytes that is being measured, an element of `sizes`.
  std::uint32_t tensors = 1;
  bool json = false;
};

/// Number of timed calls in a step. They follow one call that is not timed.
constexpr int calls_per_step = 5;

/// Times calls of all_reduce with `count` tensors of `bytes` bytes each.
/// @returns the microseconds of each call.
std::vector<double> time_rounds(const strategy& workers, std::uint64_t bytes,
                                std::uint32_t count) {
  const auto elements = static_cast<std::int64_t>(bytes / sizeof(float));
  const int calls = bytes * count <= 1 << 20 ? 200 : 15;
  const tensors xs(count, tensor::full({elements}, 1));
  const auto token = tensor::full({1}, 1);
  const auto expected = static_cast<float>(workers.num_replicas_in_sync());
  std::vector<double> times_us;
  for (int done = 0; done < calls; done += calls_per_step)
    workers.run([&](replica_context& replica) {
      for (int i = -1; i < calls_per_step; ++i) {
        replica.all_reduce(sum, token); // acts as a barrier
        const auto start = benchmarks::clock::now();
        const auto sums = count == 1
                            ? tensors(1, replica.all_reduce(sum, xs.front()))
                            : replica.all_reduce(sum, xs);
        if (i >= 0)
          times_us.push_back(1e6 * seconds_since(start));
        const auto last = sums.back().data<float>();
        if (last.front() != expected || last.back() != expected)
          throw std::logic_error("an all-reduce gave a wrong sum");
      }
    });
  return times_us;
}

void print(const allreduce_options& o, std::uint64_t bytes,
           std::vector<double> times_us) {
  std::ranges::sort(times_us);
  const auto median = benchmarks::median(times_us);
  const auto ring = o.implementation == "ring" ? "ring/" : "";
  const auto name = "allreduce/troupe/" + std::string{ring} + o.transport + "/r"
                    + std::to_string(o.ranks) + "/" + std::to_string(bytes)
                    + (o.tensors > 1 ? "x" + std::to_string(o.tensors) : "");
  const auto rate = double(bytes) * o.tensors / median / 1e3;
  if (o.json)
    std::cout << nlohmann::json{{"case", name},
                                {"bytes", bytes},
                                {"tensors", o.tensors},
                                {"median_us", median},
                                {"min", times_us.front()},
                                {"max", times_us.back()},
                                {"p95_us",
                                 times_us[times_us.size() * 95 / 100]},
                                {"rounds", times_us.size()},
                                {"algbw_GBps", rate}}
              << std::endl;
  else
    std::printf("%s: %.1f us (%.1f to %.1f), %.2f GB/s\n", name.c_str(), median,
                times_us.front(), times_us.back(), rate);
}

} // namespace

int main(int argc, char** argv) {
  allreduce_options o;
  CLI::App app{"Measures all-reduce between processes of this host."};
  app.add_option("--ranks", o.ranks, "processes")
    ->check(CLI::Range(1, 64))
    ->capture_default_str();
  app.add_option("--transport", o.transport, "auto, shm, tcp or tls")
    ->check(CLI::IsMember({"auto", "shm", "tcp", "tls"}))
    ->capture_default_str();
  app.add_option("--implementation", o.implementation, "tree or ring")
    ->check(CLI::IsMember({"tree", "ring"}))
    ->capture_default_str();
  app.add_option("--sizes", o.sizes, "bytes")->delimiter(',');
  app
    .add_option("--tensors", o.tensors,
                "number of tensors of each size in one call")
    ->check(CLI::Range(1, 100'000))
    ->capture_default_str();
  app.add_flag("--json", o.json, "one line of JSON for each size");
  return run_main(app, argc, argv, [&] {
    run_local_job(
      {o.ranks, o.transport, o.implementation},
      [&](const multi_worker_mirrored_strategy& workers, std::uint32_t rank) {
        for (const auto bytes : o.sizes) {
          auto times_us = time_rounds(workers, bytes, o.tensors);
          if (rank == 0)
            print(o, bytes, std::move(times_us));
        }
      });
  });
}
