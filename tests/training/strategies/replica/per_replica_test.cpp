#include "troupe/training/strategies/replica/per_replica.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace troupe {
namespace {

struct loss_and_rows {
  double loss = 0;
  int rows = 0;
};

TEST(PerReplica, MapsItsValuesUnderTheSameIds) {
  const per_replica<loss_and_rows> results{{{0.5, 3}, {0.25, 2}}, {4, 5}};
  const auto rows = results.map(&loss_and_rows::rows);
  EXPECT_EQ(rows.values(), (std::vector<int>{3, 2}));
  EXPECT_EQ(rows.replica_ids(), (std::vector<std::uint32_t>{4, 5}));
  std::string order;
  const per_replica<std::string> texts =
    results.map([&](const loss_and_rows& x) {
      order += std::to_string(x.rows);
      return std::to_string(x.loss).substr(0, 4);
    });
  EXPECT_EQ(texts[5], "0.25");
  EXPECT_EQ(order, "32");
  const per_replica<bool> found =
    results.map([](const loss_and_rows& x) { return x.rows == 2; });
  EXPECT_FALSE(found[4]);
  EXPECT_TRUE(found[5]);
}

/// A replica of another process, as after its loss.
class other_values final : public value_source<loss_and_rows> {
public:
  bool provides(std::uint32_t replica) const override { return replica == 6; }

private:
  loss_and_rows make(std::uint32_t, const char*) const override {
    return {0.125, 9};
  }
};

TEST(PerReplica, MapsTheValuesOfATakenReplicaByAFunctionWithoutCaptures) {
  const per_replica<loss_and_rows> results{
    {{0.5, 3}}, {4}, std::make_shared<other_values>()};
  EXPECT_EQ(results.map(&loss_and_rows::rows).value_for(6, "run"), 9);
  const auto twice =
    results.map([](const loss_and_rows& x) { return 2 * x.loss; });
  EXPECT_EQ(twice.value_for(6, "run"), 0.25);
  EXPECT_EQ(twice.map([](double x) { return x + 1; }).value_for(6, "run"),
            1.25);
  EXPECT_EQ(twice.values(), std::vector<double>{1.0});
  EXPECT_FALSE(twice.provides(5));
  int calls = 0;
  const auto counted =
    results.map([&](const loss_and_rows&) { return ++calls; });
  EXPECT_FALSE(counted.provides(6)) << "the captures may be gone";
}

TEST(PerReplica, NamesTheCallThatNeedsAMissingValue) {
  const per_replica<int> values{{7}};
  EXPECT_EQ(values.value_for(0, "reduce"), 7);
  const auto error_of = [](auto&& call) -> std::string {
    try {
      call();
    } catch (const std::logic_error& e) {
      return e.what();
    }
    return "no error";
  };
  const std::string rest =
    ": values of the replicas {0} include none of replica 1; "
    "per_replica{values} counts from 0, so derive the values by `map` or "
    "`values_from`, or pass `local_replica_ids()` too; derive them again after "
    "the loss of a process, or by `map` with a function without captures";
  EXPECT_EQ(error_of([&] { values.value_for(1, "reduce"); }), "reduce" + rest);
  EXPECT_EQ(error_of([&] { local(values, 1); }), "run" + rest);
  EXPECT_EQ(error_of([&] { values[1]; }), "operator[]" + rest);
}

} // namespace
} // namespace troupe
