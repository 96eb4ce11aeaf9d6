#include "troupe/actors/collectives/nccl/device_sum_backend.hpp"
#include "troupe/tests/actors/collectives/nccl/fake_ranks.hpp"
#include "troupe/tests/tensors/simulated_device.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

using namespace troupe;
using namespace troupe::testing;

namespace {

using wait_condition = collective_backend::wait_condition;
using wait_status = collective_backend::wait_status;

/// Its collectives complete when the test says so.
class waiting_host final : public collective_backend {
public:
  void begin_generation(std::uint64_t) override {}
  void begin_step(std::uint64_t) override {}
  void end_step() override {}
  void contribute(std::uint32_t, const tensor&, const collective_options&,
                  collective::output_placement) override {}
  void gather(std::uint32_t, const tensor&,
              const collective_options&) override {}
  wait_status wait(const wait_condition&, bool blocking) override {
    sends_wake = blocking;
    return is_complete ? wait_status::ready : wait_status::pending;
  }
  bool wakes() const override { return true; }
  std::optional<failure> last_failure() override { return {}; }
  tensor sum_of(std::uint32_t) override { return {}; }
  tensors gathered(std::uint32_t) override { return {}; }
  std::optional<std::uint32_t> first_incomplete() override { return {}; }
  std::vector<std::uint32_t>
  missing(std::uint64_t, const std::optional<wait_condition>&) override {
    return {};
  }

  bool is_complete = false;
  /// The last wait was a blocking one, so the replica will get a message.
  bool sends_wake = false;
};

constexpr wait_condition host_gather{wait_condition::kind::gather};
constexpr wait_condition device_sum{wait_condition::kind::sum, 1};

/// A replica with a rank of its own.
struct replica_on_device {
  explicit replica_on_device(unsigned seed)
    : nccl{std::make_shared<fake_nccl>(
      fake_nccl::options{.seed = seed, .steps_in_queries = true})} {}

  void begin(std::uint64_t generation) {
    backend.begin_generation(generation);
    backend.begin_step(0);
  }
  void contribute() {
    backend.contribute(device_sum.bucket,
                       tensor::full({8}, 1).to({device_kind::cuda, 0}), {},
                       collective::output_placement::separate);
  }
  /// A replica that gets no message asks again.
  wait_status wait(const wait_condition& condition) {
    const auto status = backend.wait(condition, true);
    if (status == wait_status::pending) {
      EXPECT_TRUE(host->sends_wake || !backend.wakes()) << "it would hang";
    }
    return status;
  }

  std::shared_ptr<fake_nccl> nccl;
  std::shared_ptr<waiting_host> host = std::make_shared<waiting_host>();
  /// Read by the watchdog of the rank too.
  std::atomic<std::chrono::steady_clock::time_point> now{};
  device_sum_backend backend{
    host,
    std::make_shared<nccl_rank>(
      local_placement{placement{1}, 0}, nccl->make_device(),
      std::make_shared<shared_ids>(),
      std::make_shared<threaded_blocking_calls>(),
      nccl_options{.now = [this] { return now.load(); }}),
    0};
};

} // namespace

// The host sends a replica that waits a message to wake it, but NCCL does not.
// So a replica has to ask again by itself while a sum on devices is incomplete,
// and only then.
TEST(DeviceSumBackend, WakesNoReplicaWhileASumOnDevicesIsIncomplete) {
  test::simulated_devices devices;
  int polls = 0; // The watchdog of a rank may complete a sum before the first.
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    replica_on_device it{seed};
    for (const std::uint64_t generation : {1, 2}) {
      it.begin(generation);
      EXPECT_EQ(it.wait(host_gather), wait_status::pending);
      EXPECT_TRUE(it.backend.wakes());
      it.contribute();
      EXPECT_FALSE(it.backend.wakes());
      EXPECT_EQ(it.wait(host_gather), wait_status::pending);
      for (int waits = 0; !it.backend.wakes(); ++waits) {
        ASSERT_LT(waits, 1'000);
        ++polls;
        EXPECT_EQ(it.wait(host_gather), wait_status::pending);
      }
      EXPECT_EQ(it.wait(device_sum), wait_status::ready);
      it.backend.end_step();
    }
  }
  EXPECT_GT(polls, 0) << "no sum was ever incomplete";
}

// A communicator that fails takes its sums with it, also if they were complete.
// The failure is reported late, and only to a replica that asks.
TEST(DeviceSumBackend, WakesNoReplicaWhoseSumWasCompleteWhenNcclFails) {
  test::simulated_devices devices;
  replica_on_device it{1};
  it.begin(1);
  it.contribute();
  for (int waits = 0; !it.backend.wakes(); ++waits) {
    ASSERT_LT(waits, 1'000);
    it.wait(host_gather);
  }
  it.host->is_complete = true;
  EXPECT_EQ(it.wait(host_gather), wait_status::ready);
  it.nccl->fail_communicators("a cable is broken");
  EXPECT_EQ(it.wait(device_sum), wait_status::pending);
  EXPECT_FALSE(it.backend.wakes());
  it.now = it.now.load() + std::chrono::minutes{1};
  EXPECT_EQ(it.wait(device_sum), wait_status::failed);
  it.backend.end_step();
}
