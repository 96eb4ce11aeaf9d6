#include "graph_checks.hpp"
#include "simulated_device.hpp"

#include <gtest/gtest.h>

namespace {

using namespace troupe;
using namespace troupe::test;

class DeviceGraph : public ::testing::TestWithParam<named_graph_check> {};

TEST_P(DeviceGraph, OfASimulatedDevice) {
  simulated_devices devices;
  GetParam().check({device_kind::cuda, 0});
}

INSTANTIATE_TEST_SUITE_P(All, DeviceGraph, ::testing::ValuesIn(graph_checks),
                         [](const auto& x) { return x.param.name; });

} // namespace
