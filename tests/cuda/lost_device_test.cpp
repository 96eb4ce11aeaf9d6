#include "troupe/tensors/cuda/lost_device.hpp"

#include <gtest/gtest.h>

// The numbers are those of `cudaError_t`. No card is needed.

namespace {

using namespace troupe::cuda;

TEST(LostDevice, IsKnownByTheErrorsAfterWhichAProcessMustEnd) {
  for (const int error : {214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717,
                          718, 719, 721, 810, 911}) {
    EXPECT_TRUE(means_lost_device(error)) << error;
    EXPECT_TRUE(query_means_lost_device(error)) << error;
  }
}

TEST(LostDevice, IsNotMeantByOtherErrors) {
  // Success, an invalid value, too little memory, no kernel for the device, not
  // ready, too many resources, not permitted, and errors of captures.
  for (const int error : {0, 1, 2, 209, 600, 701, 800, 900, 901, 906})
    EXPECT_FALSE(means_lost_device(error)) << error;
}

TEST(LostDevice, IsMeantByAnyErrorOfAQuery) {
  for (const int error : {46, 100, 999}) // unavailable, none, unknown
    EXPECT_TRUE(query_means_lost_device(error)) << error;
  for (const int result : {0, 600, 900, 901, 906})
    EXPECT_FALSE(query_means_lost_device(result)) << result;
}

} // namespace
