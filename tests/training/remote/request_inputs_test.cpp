#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/core/step.hpp"
#include "troupe/tests/support/timeouts.hpp"
#include "troupe/training/remote/request_inputs.hpp"

#include <gtest/gtest.h>

#include <future>
#include <thread>

namespace {

using namespace troupe;
using namespace std::chrono_literals;

using troupe::test::patience;

tensor number(double x) {
  return tensor::full({}, x);
}

input_list inputs_of(std::uint32_t replica, double x) {
  return {{replica}, {1}, {number(x)}};
}

TEST(RequestInputs, AReplicaThatWasTakenOverWaitsForItsInputs) {
  request_inputs inputs;
  ASSERT_TRUE(inputs.begin(7, inputs_of(0, 1)));
  EXPECT_EQ(inputs.wait_for(0, 0ms).at(0).item<float>(), 1);
  auto waiting = std::async(std::launch::async, [&] {
    return inputs.wait_for(2, patience).at(0).item<float>();
  });
  EXPECT_FALSE(inputs.add(6, inputs_of(2, 5))) << "of another request";
  EXPECT_TRUE(inputs.add(7, inputs_of(2, 3)));
  EXPECT_TRUE(inputs.add(7, inputs_of(2, 4))) << "the first ones count";
  EXPECT_EQ(waiting.get(), 3);
}

TEST(RequestInputs, NamesTheReplicaWhoseInputsDoNotArrive) {
  request_inputs inputs;
  inputs.begin(0, inputs_of(0, 1));
  try {
    inputs.wait_for(2, 1ms);
    ADD_FAILURE() << "arrived";
  } catch (const job_error& e) {
    EXPECT_EQ(e.code, ec::stalled);
    EXPECT_STREQ(e.what(), "the client did not send the inputs of replica 2 "
                           "within 1 ms");
  }
}

TEST(RequestInputs, OfOneRequestAreNotThoseOfTheNext) {
  request_inputs inputs;
  ASSERT_TRUE(inputs.begin(0, inputs_of(0, 1)));
  EXPECT_FALSE(inputs.begin(1, inputs_of(0, 2))) << "the first has not ended";
  inputs.end();
  EXPECT_FALSE(inputs.add(0, inputs_of(1, 1)));
  ASSERT_TRUE(inputs.begin(1, {{}, {1}, {number(9)}}));
  EXPECT_EQ(inputs.wait_for(5, 0ms).at(0).item<float>(), 9) << "of all";
  EXPECT_EQ(inputs.common().at(0).item<float>(), 9);
  inputs.end();
  ASSERT_TRUE(inputs.begin(2, {{}, {}, {}}));
  EXPECT_THROW(inputs.wait_for(0, 1ms), job_error) << "there are none";
  EXPECT_THROW(inputs.common(), job_error);
}

TEST(RequestInputs, CloseEndsAllWaits) {
  request_inputs inputs;
  inputs.begin(0, {});
  auto waiting =
    std::async(std::launch::async, [&] { inputs.wait_for(0, patience); });
  inputs.close();
  EXPECT_THROW(waiting.get(), superseded);
  EXPECT_THROW(inputs.wait_for(0, patience), superseded);
}

TEST(RequestInputs, NumbersOfAClientAreChecked) {
  EXPECT_EQ(fault_of({{0, 2}, {1, 0}, {number(1)}}), "");
  EXPECT_EQ(fault_of({{}, {}, {}}), "");
  EXPECT_NE(fault_of({{0, 2}, {1, 1}, {number(1)}}), "") << "one is missing";
  EXPECT_NE(fault_of({{0}, {4'294'967'295u}, {number(1)}}), "");
  EXPECT_NE(fault_of({{0, 2}, {1}, {number(1)}}), "") << "one count is missing";
  EXPECT_NE(fault_of({{}, {1, 0}, {number(1)}}), "");
  EXPECT_NE(fault_of({{2, 0}, {1, 0}, {number(1)}}), "") << "they descend";
  EXPECT_NE(fault_of({{2, 2}, {1, 0}, {number(1)}}), "") << "one is repeated";
}

} // namespace
