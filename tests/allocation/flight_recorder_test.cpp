#include "troupe/actors/flight/flight_recorder.hpp"
#include "troupe/tests/support/malloc_counter.hpp"

#include <gtest/gtest.h>

namespace {

using namespace troupe;

/// The first round also uses memory that was never written.
TEST(FlightRecorder, AllocatesNothingForAnEventOfAStep) {
  flight_recorder recorder{64};
  const troupe::testing::malloc_counter counter;
  for (std::uint64_t step = 0; step < 200; ++step)
    recorder.record({.kind = flight_event_kind::step_committed,
                     .generation = 1,
                     .run = 2,
                     .step = step});
  EXPECT_EQ(counter.calls(), 0u);
  EXPECT_EQ(recorder.recorded(), 200u);
}

} // namespace
