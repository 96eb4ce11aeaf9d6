#include "troupe/benchmarks/timing.hpp"

#include <algorithm>

namespace troupe::benchmarks {

double median(std::vector<double> xs) {
  std::ranges::sort(xs);
  const auto half = xs.size() / 2;
  return xs.size() % 2 ? xs[half] : (xs[half - 1] + xs[half]) / 2;
}

summary summarize(const std::vector<double>& xs) {
  const auto [low, high] = std::ranges::minmax(xs);
  return {median(xs), low, high};
}

std::vector<double> time_steps(const timing_windows& windows,
                               const std::function<void(std::uint64_t)>& run) {
  const auto timed = [&](std::uint64_t steps) {
    const auto start = clock::now();
    run(steps);
    return seconds_since(start) / double(steps);
  };
  const auto fitting = [&](double seconds_per_step) {
    return std::max<std::uint64_t>(
      5, std::uint64_t(windows.seconds / seconds_per_step));
  };
  timed(5);
  const auto steps = fitting(timed(fitting(timed(10))));
  std::vector<double> out;
  for (int i = 0; i < windows.count; ++i)
    out.push_back(timed(steps));
  return out;
}

} // namespace troupe::benchmarks
