#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/support/scratch.hpp"
#include "troupe/tests/training/strategies/workers.hpp"
#include "troupe/training/loop/optimizer.hpp"

#include <gtest/gtest.h>

namespace {

using namespace troupe;
using namespace troupe::test;

std::string differs(const std::string& variable, const std::string& replicas) {
  return "the copies of the variable \"" + variable + "\" differ: " + replicas
         + " other values than replica 0; all_reduce the gradients before an "
           "optimizer applies them, so that all replicas make the same update, "
           "or, if a step failed before, load the last saved file";
}

/// Makes the copies of the last variable differ on one replica of the job.
void change(const strategy& on, const model& it, std::uint32_t replica) {
  on.run([&](replica_context& self) {
    if (self.replica_id() == replica)
      it.variables().back().value().mutable_data<float>()[3] += 1;
  });
}

std::string said_by(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return "no error";
}

class EqualCopies : public scratch_test {
protected:
  /// Returns the error of `fit`, which `evaluate` and `save` must repeat.
  std::string refused(model& it) {
    const auto batches = digits_200().batch(16);
    const auto said = said_by([&] { it.fit(batches); });
    EXPECT_EQ(said_by([&] { it.evaluate(batches); }), said);
    EXPECT_EQ(said_by([&] { it.save(folder / "none"); }), said);
    EXPECT_FALSE(std::filesystem::exists(folder / "none"));
    return said;
  }
};

TEST_F(EqualCopies, DifferenceWithinAProcessIsReported) {
  runtime actors;
  const mirrored_strategy three{actors, {"cpu:0", "cpu:1", "cpu:2"}};
  const auto scope = three.scope();
  auto it = small_model();
  change(three, it, 1);
  EXPECT_EQ(refused(it), differs("dense_2/bias", "replica 1 has"));
  change(three, it, 2);
  EXPECT_EQ(refused(it), differs("dense_2/bias", "replicas 1, 2 have"));
  change(three, it, 0);
  it.evaluate(digits_200().batch(16));
}

TEST_F(EqualCopies, DifferenceBetweenWorkersIsReported) {
  for (const std::uint32_t replica : {1, 2, 3})
    all_workers(2, 2, [&](const strategy& on, std::uint32_t) {
      const auto scope = on.scope();
      auto it = small_model();
      change(on, it, replica);
      EXPECT_EQ(
        refused(it),
        differs("dense_2/bias", "replica " + std::to_string(replica) + " has"));
    });
}

TEST_F(EqualCopies, DifferenceAfterALoopWithoutAllReduceIsReported) {
  runtime actors;
  const mirrored_strategy two{actors, {"cpu:0", "cpu:1"}};
  const auto scope = two.scope();
  for (const bool reduced : {true, false}) {
    auto it = small_model();
    optimizer by{adam{}};
    for (const auto& step : two.distribute(uneven_batches()))
      two.run(
        [&](replica_context& self, const batch& mine) {
          tape t;
          const auto losses =
            models::cross_entropy(it(mine.inputs), mine.labels) / 16;
          const auto own = t.gradient(losses, it.variables());
          by.apply(reduced ? self.all_reduce(sum, own) : own, it.variables());
        },
        step);
    if (reduced)
      it.save(folder / "one");
    else
      EXPECT_EQ(refused(it), differs("dense_1/kernel", "replica 1 has"));
  }
}

} // namespace
