#pragma once

#include "troupe/actors/group/replica_group.hpp"
#include "troupe/tests/support/mentions.hpp"

#include <cmath>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

// A step function, a second computation of its sums, and a record of the
// results of a run.

namespace troupe::testing {

inline constexpr std::uint32_t small = 3, large = 9; // bucket numbers

/// Returns the contribution of replica `r` in step `s`. The elements differ so
/// much in magnitude that the bits of a sum show the order of the additions.
inline tensor contribution_of(std::uint32_t r, std::uint64_t s,
                              std::uint32_t bucket) {
  tensor value{shape{bucket == small ? 37 : 20'000}};
  std::uint32_t bits = 2654435761u * (r + 1) + 40503u * std::uint32_t(s + 1);
  for (auto& v : value.mutable_data<float>()) {
    bits = bits * 1664525u + 1013904223u;
    v = float(std::int32_t(bits)) * std::ldexp(1.f, int(bits >> 27) - 40);
  }
  return value;
}

/// Returns the sum over the replicas [a, b) by the definition of the canonical
/// tree.
inline tensor expected_sum(std::uint32_t a, std::uint32_t b, std::uint64_t s,
                           std::uint32_t bucket) {
  if (b - a == 1)
    return contribution_of(a, s, bucket);
  std::uint32_t k = 1;
  while (2 * k < b - a)
    k *= 2;
  auto x = expected_sum(a, a + k, s, bucket);
  const auto decoded = expected_sum(a + k, b, s, bucket);
  for (std::size_t i = 0; i < x.size(); ++i)
    x.mutable_data<float>()[i] += decoded.data<float>()[i];
  return x;
}

/// Results of a run: sums by (replica, step, bucket), and the commits.
struct outcome {
  std::mutex lock;
  std::map<std::tuple<std::uint32_t, std::uint64_t, std::uint32_t>, tensor>
    sums;
  std::vector<commit_record> commits;
  std::uint64_t end = 0;

  void record(const step_context& context, std::uint32_t bucket, tensor sum) {
    const std::lock_guard hold{lock};
    sums[{context.replica, context.step, bucket}] = std::move(sum);
  }

  run_request request(std::uint64_t first, std::uint64_t steps) {
    return {first, steps,
            [this](step_context& context) {
              context.contribute(
                large, contribution_of(context.replica, context.step, large));
              context.contribute(
                small, contribution_of(context.replica, context.step, small));
              record(context, small, context.sum(small));
              record(context, large, context.sum(large));
              context.begin_update();
              context.report = {context.replica + 1,
                                {0.1 * double(context.replica + context.step),
                                 double(context.step)}};
            },
            [this](const commit_record& record) {
              commits.push_back(record);
              // This depends on the time at which the caller is called.
              commits.back().processed_by_chief = 0;
            }};
  }
};

/// Returns the text of the `job_error` that `fn` throws. Empty: `fn` throws no
/// error. If the code of the error is not `wanted`, the text begins with the
/// code.
template <class F>
std::string job_error_of(F&& fn, ec wanted) {
  try {
    fn();
  } catch (const job_error& e) {
    return e.code == wanted ? e.what()
                            : "code " + to_string(e.code) + ": " + e.what();
  }
  return "";
}

using test::mentions;

} // namespace troupe::testing
