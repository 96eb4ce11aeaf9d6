#include "troupe/training/strategies/per_replica.hpp"

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
    "the loss of a process";
  EXPECT_EQ(error_of([&] { values.value_for(1, "reduce"); }), "reduce" + rest);
  EXPECT_EQ(error_of([&] { local(values, 1); }), "run" + rest);
  EXPECT_EQ(error_of([&] { values[1]; }), "operator[]" + rest);
}

} // namespace
} // namespace troupe
