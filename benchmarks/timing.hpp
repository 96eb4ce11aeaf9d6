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

/// The middle value; of two middle ones their mean. @pre `xs` is not empty.
double median(std::vector<double> xs);

struct summary {
  double median = 0, min = 0, max = 0;
};
/// @pre `xs` is not empty.
summary summarize(const std::vector<double>& xs);

struct windows {
  int count = 5;
  double seconds = 0.7; ///< Of each, about.
};

/// Runs a few windows' worth of steps to warm up, then times windows that all
/// have the same number of steps.
/// @param run  runs that many steps.
/// @returns seconds per step of each window.
std::vector<double> time_steps(const windows& how,
                               const std::function<void(std::uint64_t)>& run);

} // namespace troupe::benchmarks
