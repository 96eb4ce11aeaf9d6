#pragma once

#include "losses.hpp"
#include "troupe/tests/actors/collectives/nccl/fake_nccl.hpp"
#include "troupe/tests/tensors/simulated_device.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

// Workers whose sums NCCL adds. Devices and NCCL are simulated. Kernels run
// those of the CPU, so all results have the bits of one process on the CPU. A
// host that reads a tensor of a device crashes.

namespace troupe::test {

using testing::fake_device_options;
using testing::fake_nccl;
using broken_call = fake_device_options::broken_call;
using implementations = communication_options::implementations;
using backends = communication_options::backends;

/// The devices of all workers of a test.
struct nccl_workers {
  /// @param of_worker what the device of each worker tells of itself.
  explicit nccl_workers(std::vector<fake_device_options> of_worker = {}) {
    options.devices = {"cuda:0"};
    options.communication.collectives = backends::nccl;
    // The workers are constructed in any order.
    options.nccl_device =
      [nccl = nccl, of_worker,
       next = std::make_shared<std::atomic<std::size_t>>(0)](const device&) {
        const auto w = (*next)++;
        return nccl->make_device(w < of_worker.size() ? of_worker[w]
                                                      : fake_device_options{});
      };
  }
  ~nccl_workers() { EXPECT_EQ(nccl->violations(), std::set<std::string>{}); }

  /// Number of groups that the first device has started. Zero also if no worker
  /// has made a device.
  std::size_t groups() { return nccl->groups_of(0).size(); }

  simulated_devices devices;
  std::shared_ptr<fake_nccl> nccl = std::make_shared<fake_nccl>(
    fake_nccl::options{.seed = 5, .steps_in_queries = true});
  multi_worker_options options;
};

inline bool uses_nccl(const strategy& on) {
  return on.transport().find("nccl") != std::string::npos;
}

/// Calls `fn(strategy)` on each worker, and expects that it returns `want` and
/// that NCCL has added the sums.
template <class F, class T>
void expect_by_nccl(std::uint32_t count, const F& fn, const T& want) {
  nccl_workers workers;
  std::vector<T> found(count);
  expect_nothing_thrown(run_on_cluster(
    count, workers.options, [&](const strategy& on, std::uint32_t w) {
      EXPECT_EQ(uses_nccl(on), count > 1) << on.transport();
      found[w] = fn(on);
    }));
  for (const auto& one : found)
    EXPECT_EQ(one, want);
  if (count > 1) {
    EXPECT_GT(workers.groups(), 10u);
  }
}

} // namespace troupe::test
