#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

namespace troupe::benchmarks {

using clock = std::chrono::steady_clock;

inline double seconds_since(clock::time_point start) {
  return std::chrono::duration<double>(clock::now() - start).count();
}

/// Returns the middle value, or the mean of the two middle values.
/// @pre `xs` is not empty.
double median(std::vector<double> xs);

struct summary {
  double median = 0, min = 0, max = 0;
};
/// Returns the median, minimum and maximum.
/// @pre `xs` is not empty.
summary summarize(const std::vector<double>& xs);

struct timing_windows {
  int count = 5;
  double seconds = 0.7; ///< Approximate length of a window.
};

/// Runs steps for about one window to warm up, then times windows with equal
/// numbers of steps.
/// @param run Function that runs the given number of steps.
/// @returns seconds per step of each window.
std::vector<double> time_steps(const timing_windows& windows,
                               const std::function<void(std::uint64_t)>& run);

} // namespace troupe::benchmarks
