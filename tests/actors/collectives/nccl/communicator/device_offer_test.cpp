#include "troupe/actors/collectives/nccl/communicator/device_offer.hpp"
#include "troupe/tests/actors/collectives/nccl/fake_nccl.hpp"
#include "troupe/tests/support/variable_is.hpp"

#include <gtest/gtest.h>

namespace {

using namespace troupe;
using troupe::testing::fake_nccl;

const named_offer first{"worker 0", {{"GPU-1"}, "2.28.3", {}}};
const named_offer second{"worker 1", {{"GPU-2"}, "2.28.3", {}}};

std::string refusal_of(std::vector<named_offer> offers) {
  return why_not_nccl(offers);
}

TEST(DeviceOffer, DevicesThatDifferWithOneVersionCanUseNccl) {
  EXPECT_EQ(refusal_of({first, second}), "");
  EXPECT_EQ(refusal_of({first}), "");
}

TEST(DeviceOffer, ARefusalNamesBothWorkers) {
  EXPECT_EQ(refusal_of({second, first, {"chief 0", {{"GPU-1"}, "2.28.3", {}}}}),
            "worker 0 and chief 0 have the same card (GPU-1), but NCCL needs "
            "one for each worker; give each worker another device");
  EXPECT_EQ(refusal_of({first, {"worker 1", {{"GPU-2"}, "2.27.7", {}}}}),
            "worker 0 has NCCL 2.28.3, but worker 1 has NCCL 2.27.7; install "
            "one version on all machines");
  EXPECT_EQ(refusal_of({first, {"worker 1", {{}, {}, "cpu:0 is no device"}}}),
            "worker 1 cannot use NCCL: cpu:0 is no device; correct this");
}

TEST(DeviceOffer, SeveralDevicesOfAProcessAreCompared) {
  const auto two = [](const std::string& name, const std::string& a,
                      const std::string& b) {
    return named_offer{name, {{a, b}, "2.28.3", {}}};
  };
  EXPECT_EQ(refusal_of({two("worker 0", "GPU-1", "GPU-2"),
                        two("worker 1", "GPU-3", "GPU-4")}),
            "");
  EXPECT_EQ(refusal_of({two("worker 0", "GPU-1", "GPU-2"),
                        two("worker 1", "GPU-3", "GPU-2")}),
            "worker 0 and worker 1 have the same card (GPU-2), but NCCL needs "
            "one for each worker; give each worker another device");
  EXPECT_EQ(refusal_of({two("worker 0", "GPU-1", "GPU-1")}),
            "worker 0 has the card GPU-1 twice; name each card once");
  EXPECT_EQ(refusal_of({two("worker 0", "GPU-1", "GPU-3"), second}),
            "worker 0 has 2 devices, but worker 1 has 1 device; give all "
            "workers equally many");
}

/// The texts come from other processes.
TEST(DeviceOffer, ARefusalIsPrintable) {
  const std::string strange = "\x1b[2J\n";
  for (const auto& offers : std::vector<std::vector<named_offer>>{
         {{"worker 0", {{strange}, "2", {}}},
          {"worker 1", {{strange}, "2", {}}}},
         {first, {"worker 1", {{"GPU-2"}, strange, {}}}},
         {first, {"worker 1", {{}, {}, strange}}}}) {
    const auto text = refusal_of(offers);
    EXPECT_NE(text, "");
    EXPECT_EQ(text.find_first_of(strange.substr(0, 1) + "\n"), text.npos);
  }
}

TEST(DeviceOffer, TellsTheDeviceOrWhyThereIsNone) {
  const auto nccl = std::make_shared<fake_nccl>(fake_nccl::options{});
  EXPECT_EQ(
    make_device_offer({.policy = device_sum_policy::required,
                       .devices = {nccl->make_device({"GPU-7", "2.1.0"}),
                                   nccl->make_device({"GPU-8", "2.1.0"})}}),
    (device_offer{{"GPU-7", "GPU-8"}, "2.1.0", {}}));
  EXPECT_EQ(make_device_offer({.why_none = "there is none"}),
            (device_offer{{}, {}, "there is none"}));
}

// NCCL takes processes with different values for those of different hosts, so
// they may share a card.
TEST(DeviceOffer, HasTheHostThatNcclIsTold) {
  const auto nccl = std::make_shared<fake_nccl>(fake_nccl::options{});
  const device_sum_options options{
    .devices = {nccl->make_device({"GPU-7", "2.1.0"})}};
  const auto offer_of_host = [&](const char* host) {
    const variable_is set{"NCCL_HOSTID", host};
    return make_device_offer(options);
  };
  const named_offer first{"worker 0", offer_of_host("a")},
    second{"worker 1", offer_of_host("b")},
    same{"worker 2", offer_of_host("a")};
  EXPECT_EQ(first.offer.devices, std::vector<std::string>{"GPU-7@a"});
  EXPECT_EQ(refusal_of({first, second}), "");
  EXPECT_NE(refusal_of({first, same}), "");
}

TEST(DeviceOffer, HasNoDeviceIfCallsOfNcclWouldBlock) {
  const auto nccl = std::make_shared<fake_nccl>(fake_nccl::options{});
  const variable_is set{"NCCL_COMM_BLOCKING", "1"};
  const auto offer = make_device_offer({.devices = {nccl->make_device()}});
  EXPECT_TRUE(offer.devices.empty());
  EXPECT_NE(offer.why_none.find("unset it"), std::string::npos);
}

} // namespace
