#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/tensors/base/memory.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/support/timeouts.hpp"
#include "troupe/tests/training/small_jobs.hpp"
#include "troupe/training/loop/model/optimizer.hpp"

#include <gtest/gtest.h>

namespace {

using namespace troupe;
using namespace std::chrono_literals;

/// `optimizer::apply` with three replicas in turn, and with three on threads of
/// their own.
class SharedApply : public ::testing::TestWithParam<std::string> {
protected:
  strategy make(std::chrono::milliseconds timeout = 60s) {
    if (GetParam() == "one_device")
      return turns(3);
    return mirrored_strategy{
      actors, {"cpu:0", "cpu:1", "cpu:2"}, {.step_timeout = timeout}};
  }

  static std::string error_of(const std::function<void()>& fn) {
    try {
      fn();
    } catch (const std::logic_error& e) {
      return e.what();
    }
    return "no error";
  }

  /// Returns gradients of a constant value.
  static tensors gradients_of(const model& it, double value) {
    tensors out;
    for (const auto& x : it.variables())
      out.push_back(tensor::full(x.dims(), value));
    return out;
  }

  runtime actors;
};

INSTANTIATE_TEST_SUITE_P(Strategies, SharedApply,
                         ::testing::Values("one_device", "mirrored"),
                         [](const auto& x) { return x.param; });

TEST_P(SharedApply, NamesTheVariableAndTheReplicasWithOtherGradients) {
  const auto three = make();
  const auto scope = three.scope();
  const model it{small_net(), adam{}, {.seed = 5}};
  optimizer optimizer{adam{}};
  const auto before = it.weights_sha256();
  const auto apply = [&](std::vector<std::uint32_t> differ, std::size_t first) {
    return error_of([&] {
      three.run([&](replica_context& self) {
        auto own = gradients_of(it, 1);
        if (std::ranges::count(differ, self.replica_id()))
          for (auto i = first; i < own.size(); ++i)
            own[i].mutable_data<float>()[2] += 1;
        optimizer.apply(own, it.variables());
      });
    });
  };
  const auto text = [](const std::string& variable,
                       const std::string& replicas) {
    return "the gradients of the variable \"" + variable
           + "\" differ: " + replicas
           + " other values than replica 0; all_reduce the gradients before an "
             "optimizer applies them, so that all replicas make the same "
             "update";
  };
  EXPECT_EQ(apply({1}, 0), text("dense_1/kernel", "replica 1 has"));
  EXPECT_EQ(apply({2}, 3), text("dense_2/bias", "replica 2 has"));
  EXPECT_EQ(apply({1, 2}, 1), text("dense_1/bias", "replicas 1, 2 have"));
  EXPECT_EQ(apply({0}, 2), text("dense_2/kernel", "replicas 1, 2 have"));
  EXPECT_EQ(it.weights_sha256(), before);
  EXPECT_EQ(optimizer.steps(), 0u);
  EXPECT_EQ(apply({}, 0), "no error");
  EXPECT_NE(it.weights_sha256(), before);
  EXPECT_EQ(optimizer.steps(), 1u);
}

/// Also if only later variables differ on another replica.
TEST_P(SharedApply, NamesTheFirstVariableThatDiffers) {
  const auto three = make();
  const auto scope = three.scope();
  const model it{small_net(), sgd{}, {.seed = 5}};
  optimizer optimizer{sgd{}};
  const auto text = error_of([&] {
    three.run([&](replica_context& self) {
      auto own = gradients_of(it, 1);
      if (self.replica_id() > 0)
        own[3 - self.replica_id()].mutable_data<float>()[0] = 9;
      optimizer.apply(own, it.variables());
    });
  });
  EXPECT_EQ(text.substr(0, text.find(';')),
            "the gradients of the variable \"dense_1/bias\" differ: replica 2 "
            "has other values than replica 0");
}

TEST_P(SharedApply, ForgottenAllReduceOfALoopIsNamed) {
  const auto three = make();
  const auto scope = three.scope();
  for (const bool reduced : {true, false}) {
    model it{small_net(), adam{}, {.seed = 5}};
    const auto before = it.weights_sha256();
    const auto text = error_of([&] {
      for (const auto& step : three.distribute(digits_200().batch(40)))
        three.run(
          [&](replica_context& self, const batch& mine) {
            tape t;
            const auto losses =
              models::cross_entropy(it(mine.inputs), mine.labels) / 40;
            const auto own = t.gradient(losses, it.variables());
            it.optimizer().apply(reduced ? self.all_reduce(sum, own) : own,
                                 it.variables());
          },
          step);
    });
    if (reduced) {
      EXPECT_EQ(text, "no error");
      EXPECT_EQ(it.steps(), 5u);
    } else {
      EXPECT_EQ(text.substr(0, text.find(';')),
                "the gradients of the variable \"dense_1/kernel\" differ: "
                "replicas 1, 2 have other values than replica 0");
      EXPECT_EQ(it.weights_sha256(), before);
      EXPECT_EQ(it.steps(), 0u);
    }
  }
}

TEST_P(SharedApply, RejectsOtherVariablesAndOtherOptimizers) {
  const auto three = make();
  const auto scope = three.scope();
  const model it{small_net(), sgd{}, {.seed = 5}};
  optimizer first{sgd{}}, second{sgd{}};
  const auto before = it.weights_sha256();
  EXPECT_EQ(error_of([&] {
              three.run([&](replica_context& self) {
                const auto own = gradients_of(it, 1);
                const auto count = self.replica_id() == 2 ? 1 : 2;
                first.apply(std::span{own}.first(count),
                            std::span{it.variables()}.first(count));
              });
            }),
            "replica 2 applied gradients to other variables than replica 0; "
            "all replicas must pass the same variables in the same order");
  EXPECT_EQ(error_of([&] {
              three.run([&](replica_context& self) {
                (self.replica_id() == 1 ? second : first)
                  .apply(gradients_of(it, 1), it.variables());
              });
            }),
            "replica 1 applied another optimizer than replica 0; all replicas "
            "must apply the same optimizers in the same order");
  EXPECT_EQ(
    error_of([&] {
      three.run([&] {
        const std::vector<variable> twice(2, it.variables()[1]);
        const tensors own(2, tensor::zeros(twice[0].dims()));
        first.apply(own, twice);
      });
    }),
    "an optimizer got the variable dense_1/bias twice in one call; list "
    "it once");
  EXPECT_EQ(it.weights_sha256(), before);
}

TEST_P(SharedApply, NamesAReplicaThatDoesNotApply) {
  const std::string missing =
    "replica 0 waits for the update, still missing replica 1";
  const auto text =
    troupe::test::with_sufficient_timeout(missing, [&](auto timeout) {
      const auto three = make(timeout);
      const auto scope = three.scope();
      const model it{small_net(), sgd{}, {.seed = 5}};
      optimizer optimizer{sgd{}};
      const auto before = it.weights_sha256();
      std::string said = "no error";
      try {
        three.run([&](replica_context& self) {
          if (self.replica_id() != 1)
            optimizer.apply(gradients_of(it, 1), it.variables());
        });
      } catch (const job_error& e) {
        EXPECT_EQ(e.code, ec::stalled);
        said = e.what();
      }
      EXPECT_EQ(it.weights_sha256(), before);
      return said;
    });
  EXPECT_NE(text.find(missing), text.npos) << text;
}

TEST_P(SharedApply, GoesOnAfterAReplicaDidNotApply) {
  const auto three = make(1s);
  const auto scope = three.scope();
  const model it{small_net(), sgd{}, {.seed = 5}};
  optimizer optimizer{sgd{}};
  EXPECT_THROW(three.run([&](replica_context& self) {
    if (self.replica_id() != 1)
      optimizer.apply(gradients_of(it, 1), it.variables());
  }),
               job_error);
  three.run([&] { optimizer.apply(gradients_of(it, 1), it.variables()); });
  EXPECT_EQ(optimizer.steps(), 1u);
}

/// ThreadSanitizer finds no race in this loop, which reads the variables at all
/// times at which it may.
TEST_P(SharedApply, ReadsSeeOldValuesBeforeApplyAndNewValuesAfter) {
  const auto three = make();
  const auto scope = three.scope();
  const model it{small_net(), sgd{.learning_rate = 1}, {.seed = 5}};
  optimizer optimizer{sgd{.learning_rate = 1}};
  const auto total = [&] {
    double all = 0;
    for (const auto& x : it.variables())
      for (const auto element : x.value().data<float>())
        all += element;
    return all;
  };
  three.run([&](replica_context& self) {
    for (int step = 0; step < 20; ++step) {
      const auto old = total();
      const auto sums = self.all_reduce(sum, gradients_of(it, 1));
      EXPECT_EQ(total(), old);
      optimizer.apply(sums, it.variables());
      const auto now = total();
      EXPECT_LT(now, old);
      // The replicas agree about what they have read.
      const auto all = self.all_gather_list(tensor::full({}, now));
      for (const auto& one : all)
        EXPECT_EQ(one.item<float>(), float(now));
      optimizer.apply(self.all_reduce(mean, gradients_of(it, -3)),
                      it.variables());
      EXPECT_NEAR(total(), old, 1e-2);
    }
  });
}

/// Two optimizers and several calls in a step give the values of one replica.
TEST_P(SharedApply, CountsEachCallOfEachOptimizer) {
  const auto after = [](const strategy& over) {
    const auto scope = over.scope();
    const model it{small_net(), sgd{}, {.seed = 5}};
    optimizer first{adam{}}, second{sgd{.momentum = 0.9f}};
    for (int run = 0; run < 2; ++run)
      over.run([&] {
        for (int i = 0; i < 3; ++i) {
          first.apply(gradients_of(it, 1 + i), it.variables());
          const auto own = gradients_of(it, -i);
          second.apply(std::span{own}.first(2),
                       std::span{it.variables()}.first(2));
        }
        first.apply(tensors{}, {});
      });
    EXPECT_EQ(first.steps(), 8u);
    EXPECT_EQ(second.steps(), 6u);
    return it.weights_sha256();
  };
  EXPECT_EQ(after(make()), after(turns(1)));
}

TEST_P(SharedApply, ReplicasShareParametersAndSlots) {
  const auto bytes_of_model = [](const strategy& over) {
    const auto scope = over.scope();
    const auto before = memory::used().live;
    const model it{small_net(), adam{}, {.seed = 5}};
    EXPECT_EQ(it.variables()[0].copies(), 1u);
    EXPECT_EQ(it.variables()[0].replicas(), over.num_replicas_in_sync());
    return memory::used().live - before;
  };
  // Values, two slots and one gradient; two more gradients of two replicas.
  const auto one = bytes_of_model(turns(1)), three = bytes_of_model(make());
  EXPECT_NEAR(double(three) / double(one), 6.0 / 4.0, 0.01);
}

} // namespace
