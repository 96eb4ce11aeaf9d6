#include "card.hpp"
#include "troupe/tensors/cuda/device_check.hpp"

namespace {

using namespace troupe;
using namespace troupe::test;
using cuda::device_abilities;
using code = device_abilities::code;

TEST(DeviceCheck, SaysWhatWouldDo) {
  EXPECT_EQ(cuda::why_unusable({.major = 9}), "");
  EXPECT_EQ(
    cuda::why_unusable({.major = 7, .minor = 5, .kernels = code::missing}),
    "Troupe was built without code for compute capability 7.5; build it with "
    "TROUPE_CUDA_ARCHITECTURES=75");
  EXPECT_EQ(cuda::why_unusable({.major = 12,
                                .kernels = code::not_loaded,
                                .load_error = "unsupported PTX"}),
            "the kernels of Troupe cannot be loaded: unsupported PTX; check "
            "the card, or install a newer driver");
  EXPECT_EQ(cuda::why_unusable({.major = 9, .has_memory_pools = false}),
            "its driver has no memory pools; use a card or a driver that has "
            "them");
}

TEST_F(OnACard, ADeviceThatTestsCanUseRunsTheBuild) {
  EXPECT_EQ(cuda::why_unusable(cuda::abilities_of(card.index)), "");
  EXPECT_EQ(backend().describe(card.index).find("cannot be used"),
            std::string::npos);
}

} // namespace
