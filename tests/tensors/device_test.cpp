#include "simulated_device.hpp"
#include "troupe/tensors/device.hpp"

#include <gtest/gtest.h>

#include <array>
#include <stdexcept>
#include <string>

namespace {

using troupe::device;
using troupe::device_kind;
using troupe::parse_device;

std::string refusal_of(const std::string& text) {
  try {
    parse_device(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

TEST(Device, ParsesItsOwnName) {
  for (const auto* name : {"cpu:0", "cpu:1", "cpu:17", "cpu:65535"})
    EXPECT_EQ(to_string(parse_device(name)), name);
  EXPECT_EQ(parse_device("cpu"), (device{device_kind::cpu, 0}));
  EXPECT_EQ(to_string(device{device_kind::cuda, 3}), "cuda:3");
}

TEST(Device, IsOrderedByKindAndThenByIndex) {
  EXPECT_LT((device{device_kind::cpu, 9}), (device{device_kind::cuda, 0}));
  EXPECT_LT((device{device_kind::cpu, 0}), (device{device_kind::cpu, 1}));
}

TEST(Device, RejectsAnInvalidNameAndListsValidNames) {
  for (const auto* text :
       {"", "gpx:0", "CPU:0", " cpu:0", "cpu:", "cpu:x", "cpu:1x", "cpu: 1",
        "cpu:-1", "cpu:+1", "cpu:0x1", "cpu:1:2", "cpu:65536",
        "cpu:99999999999999999999", ":0", "cpu:1 "}) {
    const auto why = refusal_of(text);
    EXPECT_NE(why.find("'" + std::string{text} + "'"), why.npos) << why;
    EXPECT_NE(why.find("cpu:0"), why.npos) << why;
  }
}

TEST(Device, SaysThatThereAreNoCudaDevices) {
  const troupe::test::simulated_devices none{0};
  for (const std::string text : {"cuda:0", "gpu:0", "cuda"})
    EXPECT_EQ(refusal_of(text),
              "device '" + text
                + "' cannot be used: this machine has no CUDA device; use one "
                  "that has, or name cpu:0, cpu:1, ...");
}

TEST(Device, ThatIsLostRefusesAllCalls) {
  troupe::test::simulated_devices devices;
  const device first{device_kind::cuda, 0}, second{device_kind::cuda, 1};
  const auto x = troupe::tensor::full({4}, 3);
  {
    const auto there = x.to(first), other = x.to(second);
    devices.lose(first, 0);
    EXPECT_THROW(there.clone(), troupe::device_lost);
    EXPECT_THROW(there.to({}), troupe::device_lost);
    EXPECT_THROW(x.to(first), troupe::device_lost);
    EXPECT_TRUE(devices.is_lost(first));
    EXPECT_EQ(other.to({}).data<float>()[0], 3);
    EXPECT_NO_THROW(troupe::check_devices(std::array{second, device{}}));
    EXPECT_THROW(troupe::check_devices(std::array{second, first}),
                 troupe::device_lost);
  } // releases memory of the lost device
}

TEST(Device, SaysWhyThisBuildOrMachineHasNoCudaDevices) {
  const auto why = troupe::why_no_cuda_device();
  const auto* const backend =
    troupe::find_device_backend(troupe::device_kind::cuda);
  ASSERT_EQ(why.empty(), backend && backend->count() > 0);
  if (why.empty())
    return;
  EXPECT_TRUE(why.starts_with("Troupe was built without CUDA; build it with ")
              || why.starts_with("CUDA finds no device ("))
    << why;
  EXPECT_EQ(refusal_of("gpu:0"), "device 'gpu:0' cannot be used: " + why
                                   + ", or name cpu:0, cpu:1, ...");
}

TEST(Device, NamesCudaDevices) {
  troupe::test::simulated_devices two;
  for (const auto* name : {"cuda:1", "gpu:1"})
    EXPECT_EQ(to_string(parse_device(name)), "cuda:1");
  EXPECT_EQ(to_string(parse_device("gpu")), "cuda:0");
  EXPECT_EQ(refusal_of("gpu:2"),
            "device 'gpu:2' does not exist: there are 2 CUDA devices, cuda:0 "
            "to cuda:1; CPUs are named cpu:0, cpu:1, ...");
  EXPECT_EQ(refusal_of("cuda:x"),
            "device 'cuda:x' has no number from 0 to 65535; devices are "
            "named cuda:0, cuda:1, ...");
}

} // namespace
