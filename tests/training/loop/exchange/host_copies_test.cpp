#include "troupe/tests/tensors/simulated_device.hpp"
#include "troupe/training/loop/exchange/host_copies.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace {

using namespace troupe;
using namespace troupe::test;

tensor counted(std::int64_t n) {
  tensor out{shape{n}};
  std::ranges::generate(out.mutable_data<float>(),
                        [x = 0.0f]() mutable { return x++; });
  return out;
}

TEST(HostCopies, HaveTheElementsAfterOneWait) {
  simulated_devices devices;
  host_copies copies{gpu};
  for (int step = 0; step < 3; ++step) {
    auto x = counted(5).to(gpu);
    const auto first = copies.start(x),
               second = copies.start(counted(9).to(gpu));
    copies.record();
    x.set_zero(); // work that comes after the copies
    EXPECT_FALSE(same_bits(first, counted(5))) << "nothing has waited";
    copies.wait();
    EXPECT_TRUE(same_bits(first, counted(5)));
    EXPECT_TRUE(same_bits(second, counted(9)));
    EXPECT_TRUE(devices.is_pinned(first.raw()));
    EXPECT_EQ(devices.waits, step + 1);
  }
}

TEST(HostCopies, OfTheCpuAreTheTensorsThemselves) {
  simulated_devices devices;
  for (const auto& on : {device{}, gpu}) {
    host_copies copies{on};
    const auto x = counted(5);
    EXPECT_TRUE(copies.start(x).shares_storage_with(x));
    copies.record();
    copies.wait();
  }
  EXPECT_EQ(devices.waits, 0);
}

TEST(HostCopies, AreMadeAtOnceWithoutPinnedMemory) {
  simulated_devices devices;
  const auto x = counted(5).to(gpu);
  host_copies copies{gpu};
  devices.limit = 0;
  const auto found = copies.start(x);
  EXPECT_TRUE(same_bits(found, counted(5)));
  copies.record();
  copies.wait();
  EXPECT_EQ(devices.waits, 0) << "no copy is left";
}

/// The simulated device checks that no copy is under way when its memory is
/// released.
TEST(HostCopies, AreDoneWhenTheirMemoryIsReleased) {
  simulated_devices devices;
  {
    host_copies copies{gpu};
    copies.start(counted(5).to(gpu));
  }
  EXPECT_EQ(devices.waits, 1);
}

} // namespace
