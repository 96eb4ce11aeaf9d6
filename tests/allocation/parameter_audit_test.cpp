#include "troupe/models/zoo.hpp"
#include "troupe/tests/support/malloc_counter.hpp"
#include "troupe/training/loop/audit/parameter_audit.hpp"
#include "troupe/training/strategies/calls/run_steps.hpp"

#include <gtest/gtest.h>

#include <array>

namespace troupe {
namespace {

TEST(ParameterAudit, CallsNoMallocAfterTheFirstSnapshot) {
  const auto state = make_strategy_state(make_sequential_group({.replicas = 3}),
                                         "turns", {{}}, 1);
  model_state model{models::mlp(), adam{},
                    models::find_loss("softmax_cross_entropy"), 1, state};
  const fit_options options{.on_deviation = on_deviation::heal};
  parameter_audit audit{model, options};
  std::array<double, parameter_audit::report_values> values{};
  std::array<copy_report, 3> reports{};
  const auto audit_step = [&](std::uint64_t step) {
    model.model_parameters.values().mutable_data<float>()[0] += 1;
    for (std::uint32_t r = 0; r < 3; ++r) {
      audit.write_report(r, step, values);
      reports[r] = parameter_audit::read_report(r, values);
    }
    EXPECT_TRUE(audit.judge(step, 0, reports));
  };
  const testing::malloc_counter counter;
  audit_step(0);
  const auto first = counter.calls();
  EXPECT_GT(first, 0u) << "the counter counts";
  for (std::uint64_t step = 100; step < 500; step += 100)
    audit_step(step);
  EXPECT_EQ(counter.calls(), first);
  EXPECT_EQ(audit.snapshot().step(), 400u);
}

} // namespace
} // namespace troupe
