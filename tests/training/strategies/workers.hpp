#pragma once

#include "troupe/actors/group/actor_group.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/tests/support/combined_group.hpp"
#include "troupe/tests/training/small_jobs.hpp"
#include "troupe/training/strategies/calls/run_steps.hpp"
#include "troupe/training/strategies/replica/strategy_state.hpp"

#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <thread>

namespace troupe::test {

inline model small_model() {
  return {small_net(true), adam{}, {.seed = 5}};
}

/// Returns batches of 16 and a last batch of 8. With three replicas, the parts
/// of a batch differ in size too.
inline data::dataset uneven_batches() {
  return digits_200().shuffle().batch(16);
}

inline std::string weights_after_fit(const strategy& on) {
  const auto scope = on.scope();
  auto it = small_model();
  it.fit(uneven_batches(), {.epochs = 2});
  return it.weights_sha256();
}

/// Calls `fn(strategy, worker)` for each of several workers. Each worker is a
/// thread of this process, and all workers share one runtime.
/// @param each_on device of each replica.
/// @returns the exception of each worker. Null: none.
inline std::vector<std::exception_ptr>
run_on_workers(std::uint32_t workers, std::uint32_t replicas_each,
               const std::function<void(const strategy&, std::uint32_t)>& fn,
               const device& each_on = {}) {
  runtime actors;
  const auto joint = std::make_shared<combined_group>(
    make_replica_group(actors, {.replicas = workers * replicas_each}), workers);
  std::vector<std::exception_ptr> thrown(workers);
  std::vector<std::thread> threads;
  for (std::uint32_t w = 0; w < workers; ++w)
    threads.emplace_back([&, w] {
      try {
        const strategy mine{
          make_strategy_state(joint->group_of(w), "multi_worker_mirrored",
                              std::vector<device>(replicas_each, each_on), 1)};
        fn(mine, w);
      } catch (...) {
        thrown[w] = std::current_exception();
      }
    });
  for (auto& one : threads)
    one.join();
  return thrown;
}

inline std::string exception_text(const std::exception_ptr& x) {
  if (!x)
    return "";
  try {
    std::rethrow_exception(x);
  } catch (const std::exception& e) {
    return e.what();
  }
}

/// Calls `fn` as `run_on_workers` does, and expects no exception.
inline void expect_success_on_workers(
  std::uint32_t workers, std::uint32_t replicas_each,
  const std::function<void(const strategy&, std::uint32_t)>& fn) {
  for (const auto& x : run_on_workers(workers, replicas_each, fn))
    EXPECT_EQ(exception_text(x), "");
}

} // namespace troupe::test
