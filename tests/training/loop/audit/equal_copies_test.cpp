#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/support/scratch.hpp"
#include "troupe/tests/training/strategies/workers.hpp"
#include "troupe/training/loop/audit/equal_copies.hpp"
#include "troupe/training/loop/model/optimizer.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace {

using namespace troupe;
using namespace troupe::test;

std::string difference_text(const std::string& variable,
                            const std::string& replicas) {
  return "the copies of the variable \"" + variable + "\" differ: " + replicas
         + " other values than replica 0; the causes can be gradients that "
           "were "
           "not reduced by all_reduce before an optimizer applied them, "
           "another "
           "learning rate or optimizer on one of the workers, or a variable "
           "that the program has written on some of them; if a step failed "
           "before, load the last saved file";
}

/// Changes the last variable in the copy of one replica of the job.
void change_copy(const strategy& on, const model& it, std::uint32_t replica) {
  on.run([&](replica_context& self) {
    if (self.replica_id() == replica)
      it.variables().back().value().mutable_data<float>()[3] += 1;
  });
}

std::string error_text_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const std::logic_error& e) {
    return e.what();
  }
  return "no error";
}

class EqualCopies : public scratch_test {
protected:
  /// Returns the error of `fit`. Expects that `evaluate` and `save` throw the
  /// same error and that `save` writes no file.
  std::string common_error(model& it) {
    const auto batches = digits_200().batch(16);
    const auto said = error_text_of([&] { it.fit(batches); });
    EXPECT_EQ(error_text_of([&] { it.evaluate(batches); }), said);
    EXPECT_EQ(error_text_of([&] { it.save(folder / "none"); }), said);
    EXPECT_FALSE(std::filesystem::exists(folder / "none"));
    return said;
  }
};

TEST_F(EqualCopies, DifferenceBetweenWorkersIsReported) {
  for (const std::uint32_t replica : {1, 2, 3})
    expect_success_on_workers(2, 2, [&](const strategy& on, std::uint32_t) {
      const auto scope = on.scope();
      auto it = small_model();
      change_copy(on, it, replica);
      EXPECT_EQ(common_error(it),
                difference_text("dense_2/bias",
                                "replica " + std::to_string(replica) + " has"));
    });
}

TEST_F(EqualCopies, AllReplicasThatDifferAreReported) {
  expect_success_on_workers(2, 2, [&](const strategy& on, std::uint32_t) {
    const auto scope = on.scope();
    auto it = small_model();
    change_copy(on, it, 1);
    change_copy(on, it, 3);
    EXPECT_EQ(common_error(it),
              difference_text("dense_2/bias", "replicas 1, 3 have"));
    change_copy(on, it, 0);
    change_copy(on, it, 2);
    it.evaluate(digits_200().batch(16));
  });
}

/// Compares the copies of workers.
void compare(const std::vector<std::string>& texts) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < texts.size(); ++i)
    names.push_back("worker " + std::to_string(i));
  compare_copies(texts, names);
}

TEST(EqualCopiesTexts, OfModelsWithOtherVariablesAreRefused) {
  const std::string own = "kernel\t[2]\t0\tab\nbias\t[2]\t0\tcd\n";
  compare({own, "kernel\t[2]\t1\tab\nbias\t[2]\t1\tcd\n"});
  EXPECT_EQ(error_text_of([&] {
              compare({own, "kernel\t[2]\t1\tab\nscale\t[2]\t1\tcd\n"});
            }),
            "worker 1 has the variable \"scale\" [2] where worker 0 has the "
            "variable \"bias\" [2]; all workers must construct the same model "
            "and make the same calls with it");
  // A process that joins has no copies yet, and keeps its number.
  EXPECT_TRUE(error_text_of([&] {
                compare({"", own, "kernel\t[2]\t1\tab\nscale\t[2]\t1\tcd\n"});
              })
                .starts_with("worker 2 has the variable \"scale\" [2] where "
                             "worker 1 has "));
  EXPECT_EQ(
    error_text_of([&] {
      compare({"kernel\t[2]\t1\tab\n", own});
    }),
    "worker 1 has the variable \"bias\" [2] where worker 0 has no further "
    "variable; all workers must construct the same model and make the "
    "same calls with it");
}

TEST(EqualCopiesTexts, OfProcessesThatJoinAreSkipped) {
  const std::string own = "kernel\t[2]\t0\tab\n";
  compare({"", own, "kernel\t[2]\t1\tab\n", ""});
  compare({"", ""});
  EXPECT_NE(error_text_of([&] {
              compare({"", own, "kernel\t[2]\t1\tcd\n"});
            }).find("replica 1 has other values than replica 0"),
            std::string::npos);
}

/// A process may host no replica.
TEST(EqualCopiesTexts, OfProcessesWithoutReplicasAreSkipped) {
  compare({"kernel\t[2]\n", "kernel\t[2]\t1\tab\n"});
  EXPECT_NE(error_text_of([&] {
              compare({"kernel\t[2]\n", "kernel\t[2]\t1\tab\n",
                       "kernel\t[2]\t2\tcd\n"});
            }).find("replica 2 has other values than replica 1"),
            std::string::npos);
}

TEST_F(EqualCopies, DifferenceAfterALoopWithoutAllReduceIsReported) {
  expect_success_on_workers(2, 1, [&](const strategy& on, std::uint32_t) {
    const auto scope = on.scope();
    for (const bool reduced : {true, false}) {
      auto model = small_model();
      optimizer optimizer{adam{}};
      for (const auto& step : on.distribute(uneven_batches()))
        on.run(
          [&](replica_context& self, const batch& mine) {
            tape t;
            const auto losses =
              models::cross_entropy(model(mine.inputs), mine.labels) / 16;
            const auto own = t.gradient(losses, model.variables());
            optimizer.apply(reduced ? self.all_reduce(sum, own) : own,
                            model.variables());
          },
          step);
      if (reduced)
        model.save(folder / "one");
      else
        EXPECT_EQ(common_error(model),
                  difference_text("dense_1/kernel", "replica 1 has"));
    }
  });
}

} // namespace
