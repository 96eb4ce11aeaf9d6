#pragma once

#include "troupe/actors/group/replica_group.hpp"

#include <cmath>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

// A step function with a closed form, and a record of the results of its runs.

namespace troupe::testing {

inline constexpr std::uint32_t small = 3, large = 9; // bucket numbers

/// Contribution of replica `r` in step `s`. Its magnitudes differ so much that
/// the bits of a sum show the order of its additions.
inline tensor brought(std::uint32_t r, std::uint64_t s, std::uint32_t bucket) {
  tensor x{shape{bucket == small ? 37 : 20'000}};
  std::uint32_t bits = 2654435761u * (r + 1) + 40503u * std::uint32_t(s + 1);
  for (auto& v : x.mutable_data<float>()) {
    bits = bits * 1664525u + 1013904223u;
    v = float(std::int32_t(bits)) * std::ldexp(1.f, int(bits >> 27) - 40);
  }
  return x;
}

/// Sum over replicas [a, b) in canonical tree order, by its definition.
inline tensor tree(std::uint32_t a, std::uint32_t b, std::uint64_t s,
                   std::uint32_t bucket) {
  if (b - a == 1)
    return brought(a, s, bucket);
  std::uint32_t k = 1;
  while (2 * k < b - a)
    k *= 2;
  auto x = tree(a, a + k, s, bucket);
  const auto y = tree(a + k, b, s, bucket);
  for (std::size_t i = 0; i < x.size(); ++i)
    x.mutable_data<float>()[i] += y.data<float>()[i];
  return x;
}

/// Results of a run: sums by (replica, step, bucket), and the commits.
struct outcome {
  std::mutex lock;
  std::map<std::tuple<std::uint32_t, std::uint64_t, std::uint32_t>, tensor>
    sums;
  std::vector<commit_record> commits;
  std::uint64_t end = 0;

  void keep(const step_context& at, std::uint32_t bucket, tensor sum) {
    const std::lock_guard hold{lock};
    sums[{at.replica, at.step, bucket}] = std::move(sum);
  }

  work job(std::uint64_t first, std::uint64_t steps) {
    return {first, steps,
            [this](step_context& at) {
              at.contribute(large, brought(at.replica, at.step, large));
              at.contribute(small, brought(at.replica, at.step, small));
              keep(at, small, at.sum(small));
              keep(at, large, at.sum(large));
              at.begin_update();
              at.report = {at.replica + 1, 0.1 * double(at.replica + at.step),
                           double(at.step)};
            },
            [this](const commit_record& x) { commits.push_back(x); }};
  }
};

/// Text of the error that `fn` throws. Empty: it threw none. An error of
/// another code than `wanted` is prefixed with its code.
template <class F>
std::string failure_of(F&& fn, ec wanted) {
  try {
    fn();
  } catch (const failure& e) {
    return e.code == wanted ? e.what()
                            : "code " + to_string(e.code) + ": " + e.what();
  }
  return "";
}

inline bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

} // namespace troupe::testing
