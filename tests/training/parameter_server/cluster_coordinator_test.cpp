#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/ops/reduce.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/support/becomes_true.hpp"
#include "troupe/tests/support/tf_values.hpp"
#include "troupe/tests/support/timeouts.hpp"
#include "troupe/tests/training/parameter_server/number_of.hpp"
#include "troupe/training/parameter_server/cluster_coordinator.hpp"
#include "troupe/training/parameter_server/parameter_servers.hpp"
#include "troupe/training/parameter_server/server_optimizer.hpp"

#include <caf/send.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace troupe {
namespace {

using namespace std::chrono_literals;

/// Maximum wait for anything.
using troupe::test::becomes_true;
using troupe::test::patience;

/// A coordinator with its servers.
struct fixture {
  explicit fixture(const parameter_server_options& options = {.servers = 2,
                                                              .workers = 2},
                   const coordinator_options& how = {})
    : on{actors, options}, coordinator{on, how} {}

  server_variable counter(const std::string& name, double value = 0) {
    return on.make_variable(name, tensor::full({}, value));
  }
  void join() { ASSERT_TRUE(coordinator.join_for(patience)); }

  runtime actors;
  parameter_server_strategy on;
  cluster_coordinator coordinator;
};

TEST(ClusterCoordinator, ReturnsResultsInTheOrderOfTheCaller) {
  fixture f;
  std::vector<remote_value<int>> results;
  for (int i = 0; i < 100; ++i)
    results.push_back(f.coordinator.schedule([i] { return 2 * i; }));
  const auto found = f.coordinator.fetch(results);
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(found[std::size_t(i)], 2 * i);
  f.join();
  EXPECT_TRUE(f.coordinator.done());
}

TEST(ClusterCoordinator, GivesClosuresTheirContextAndArguments) {
  fixture f{{.workers = 3}};
  const auto all = f.coordinator.create_per_worker(
    [](std::uint32_t worker) { return worker * 10; });
  const auto x = f.coordinator.schedule(
    [](closure_context& self, std::uint32_t& mine, const std::string& text) {
      return mine == self.worker() * 10 && self.ordinal() == 0
               ? text
               : std::string{"wrong"};
    },
    all, "right");
  EXPECT_EQ(x.get(), "right");
  const auto none = f.coordinator.schedule([] {});
  none.get();
  EXPECT_EQ(none.status(), remote_value_status::ready);
}

TEST(ClusterCoordinator, TellsTheReportsOfAClosure) {
  fixture f;
  std::promise<float> reported;
  std::promise<void> heard;
  const auto done = f.coordinator.schedule_with(
    {.on_report =
       [&](const tensors& what) {
         reported.set_value(what.at(0).item<float>());
       }},
    [&](closure_context& self) {
      self.report({tensor::full({}, 3)});
      heard.get_future().wait_for(patience); // before the end
      return self.worker();
    });
  auto value = reported.get_future();
  ASSERT_EQ(value.wait_for(patience), std::future_status::ready);
  EXPECT_EQ(value.get(), 3);
  heard.set_value();
  EXPECT_EQ(done.get(), 0u);
}

/// The worker has one place. Two closures read until another one has ended.
TEST(ClusterCoordinator, RunsClosuresThatWaitForOthersBesideAllOthers) {
  fixture f{{.servers = 1, .workers = 1}};
  const auto x = f.on.make_variable("x", tensor::zeros({}));
  const auto wait_until = [x](float wanted) {
    return [x, wanted] {
      while (x.value().item<float>() < wanted) {
      }
    };
  };
  const closure_options options{.waits_for_others = true};
  const auto last = f.coordinator.schedule_with(options, wait_until(2));
  const auto other = f.coordinator.schedule_with(options, wait_until(2));
  f.coordinator.schedule([x] { x.assign_add(tensor::full({}, 1)); });
  f.coordinator.schedule([x] { x.assign_add(tensor::full({}, 1)); });
  last.get();
  other.get();
}

TEST(ClusterCoordinator, MakesTheChangesOfAClosureAtItsEnd) {
  fixture f;
  const auto x = f.counter("x"), y = f.counter("y");
  std::promise<void> changed, checked;
  const auto seen =
    f.coordinator.schedule([&, wait = checked.get_future().share()] {
      x.assign_add(2);
      y.assign_add(3);
      x.assign_add(1);
      const auto own = number(x) + number(y);
      changed.set_value();
      wait.wait_for(patience);
      return own;
    });
  ASSERT_EQ(changed.get_future().wait_for(patience), std::future_status::ready);
  EXPECT_EQ(number(x), 0); // no effect before the end
  EXPECT_EQ(number(y), 0);
  checked.set_value();
  EXPECT_EQ(seen.get(), 6); // its own reads see the changes
  EXPECT_EQ(number(x), 3);
  EXPECT_EQ(number(y), 3);
}

TEST(ClusterCoordinator, ReadsTheStateOfAnOptimizerInAClosure) {
  fixture f;
  const std::vector<server_variable> w{f.counter("w")};
  const server_optimizer optimizer{f.on,
                                   sgd{.learning_rate = 1, .momentum = 0.5F}};
  const std::vector<tensor> gradient{tensor::full({}, 1)};
  const auto seen = f.coordinator.schedule([&] {
    optimizer.apply(gradient, w);
    optimizer.apply(gradient, w);
    return number(w[0]);
  });
  EXPECT_EQ(seen.get(), -2.5);
  EXPECT_EQ(number(w[0]), -2.5);
}

/// With one closure in flight, a closure sees what its worker has done before.
TEST(ClusterCoordinator, AClosureSeesTheEarlierClosuresOfItsWorker) {
  fixture f{{.servers = 3, .workers = 1}};
  const auto x = f.counter("x");
  std::vector<remote_value<float>> seen;
  for (int i = 0; i < 200; ++i)
    seen.push_back(f.coordinator.schedule([&] {
      const auto before = number(x);
      x.assign(before + 1);
      return before;
    }));
  const auto values = f.coordinator.fetch(seen);
  for (std::size_t i = 0; i < values.size(); ++i)
    EXPECT_EQ(values[i], float(i));
}

// -- errors -------------------------------------------------------------------

struct special_error : std::runtime_error {
  using runtime_error::runtime_error;
};

TEST(ClusterCoordinator, A26ReportsAnErrorOnceAndGoesOn) {
  fixture f;
  const auto x = f.counter("x");
  std::vector<remote_value<void>> all;
  for (int i = 0; i < 5; ++i)
    all.push_back(f.coordinator.schedule([&, i] {
      x.assign_add(1);
      if (i == 2)
        throw special_error{"closure 2"};
    }));
  EXPECT_THROW(f.coordinator.join(), special_error);
  std::size_t done = 0;
  for (const auto& one : all) {
    EXPECT_NE(one.status(), remote_value_status::not_ready);
    done += one.status() == remote_value_status::ready;
  }
  EXPECT_THROW(all[2].get(), special_error);
  EXPECT_EQ(number(x), float(done)); // the one that has thrown has no effect
  f.join();                          // no second error
  EXPECT_TRUE(f.coordinator.done());
  EXPECT_EQ(f.coordinator.schedule([&] { return 8; }).get(), 8);
}

/// Nothing is executed when the error is reported.
TEST(ClusterCoordinator, StopsWhatIsExecutedBeforeItReportsAnError) {
  fixture f;
  const auto x = f.counter("x");
  std::atomic<int> inside = 0;
  std::promise<void> begun;
  const auto endless = f.coordinator.schedule([&](closure_context& self) {
    ++inside;
    begun.set_value();
    x.assign_add(100);
    EXPECT_TRUE(becomes_true([&] { return self.stopped(); }));
    --inside;
  });
  const auto waits =
    f.coordinator.schedule([&, go = begun.get_future().share()] {
      go.wait_for(patience);
      throw special_error{"now"};
    });
  EXPECT_THROW(f.coordinator.join(), special_error);
  EXPECT_EQ(inside, 0);
  EXPECT_EQ(number(x), 0);
  EXPECT_THROW(endless.get(), closure_cancelled);
}

TEST(ClusterCoordinator, ARejectedScheduleSchedulesNothing) {
  fixture f;
  std::atomic<bool> called = false;
  const auto failing =
    f.coordinator.schedule([] { throw special_error{"first"}; });
  EXPECT_THROW(failing.get(), special_error);
  EXPECT_THROW(f.coordinator.schedule([&] { called = true; }), special_error);
  f.join();
  EXPECT_FALSE(called);
}

TEST(ClusterCoordinator, RejectsCallsInAClosure) {
  fixture f;
  const auto scheduled =
    f.coordinator.schedule([&] { f.coordinator.schedule([] {}); });
  EXPECT_THROW(scheduled.get(), std::logic_error);
  EXPECT_THROW(f.coordinator.join(), std::logic_error);
  const auto made = f.coordinator.schedule([&] { f.counter("in a closure"); });
  EXPECT_THROW(made.get(), std::logic_error);
  EXPECT_THROW(f.coordinator.join(), std::logic_error);
  const auto dataset = f.coordinator.create_per_worker_dataset(
    data::dataset{tensor::zeros({2, 1}), {}});
  const auto waits = f.coordinator.schedule([&] { f.coordinator.join(); });
  EXPECT_THROW(waits.get(), std::logic_error);
  EXPECT_THROW(f.coordinator.join(), std::logic_error);
  EXPECT_THROW(dataset.at(0).next(), std::logic_error);
  EXPECT_THROW(dataset.local(), std::logic_error);
}

template <class... Args>
concept schedulable = requires(cluster_coordinator& x, Args... args) {
  x.schedule(args...);
};

/// TensorFlow rejects both at run time: a plain function, which needs no
/// compilation here, and a result that is not ready.
TEST(ClusterCoordinator, A36APlainFunctionCompilesAndARemoteValueDoesNot) {
  static_assert(schedulable<void (*)()>);
  static_assert(schedulable<void (*)(int), int>);
  static_assert(
    !schedulable<void (*)(const remote_value<int>&), remote_value<int>>);
  fixture f;
  int (*const twice)(int) = [](int x) { return 2 * x; };
  EXPECT_EQ(f.coordinator.schedule(twice, 21).get(), 42);
}

TEST(ClusterCoordinator, EndsWithTheServer) {
  fixture f;
  const auto x = f.counter("x");
  const auto waits = f.coordinator.schedule([&](closure_context& self) {
    EXPECT_TRUE(becomes_true([&] { return self.stopped(); }));
  });
  caf::anon_send_exit(f.on.servers()->router(),
                      caf::exit_reason::user_shutdown);
  try {
    f.coordinator.join();
    ADD_FAILURE() << "no error";
  } catch (const job_error& e) {
    EXPECT_NE(std::string{e.what()}.find("connection to the parameter servers "
                                         "has ended"),
              std::string::npos)
      << e.what();
  }
  EXPECT_THROW(waits.get(), closure_cancelled);
  EXPECT_THROW(f.coordinator.schedule([] {}), job_error);
}

TEST(ClusterCoordinator, CancelsAtItsEndWhatIsNotDone) {
  runtime actors;
  const parameter_server_strategy on{actors, {.workers = 1}};
  std::vector<remote_value<void>> all;
  {
    cluster_coordinator coordinator{on};
    for (int i = 0; i < 3; ++i)
      all.push_back(coordinator.schedule([](closure_context& self) {
        EXPECT_TRUE(becomes_true([&] { return self.stopped(); }));
      }));
  }
  for (const auto& one : all)
    EXPECT_THROW(one.get(), closure_cancelled);
}

/// The shards know the closures of the first one by their numbers.
TEST(ClusterCoordinator, AnotherOneGoesOnAfterTheEndOfTheFirst) {
  runtime actors;
  const parameter_server_strategy on{actors, {.servers = 2, .workers = 2}};
  const auto x = on.make_variable("x", tensor::full({}, 0));
  for (int i = 1; i <= 3; ++i) {
    cluster_coordinator coordinator{on};
    EXPECT_THROW(cluster_coordinator{on}, std::logic_error);
    for (int k = 0; k < 50; ++k)
      coordinator.schedule([&] { x.assign_add(1); });
    ASSERT_TRUE(coordinator.join_for(patience));
    EXPECT_EQ(number(x), float(50 * i));
  }
}

/// Code that runs while a closure is stopped is a part of the closure.
TEST(ClusterCoordinator, AClosureThatIsStoppedChangesNothing) {
  fixture f;
  const auto x = f.counter("x");
  std::atomic<int> stopped = 0;
  std::promise<void> begun;
  f.coordinator.schedule([&] {
    begun.set_value();
    try {
      for (;;)
        number(x);
    } catch (...) {
      ++stopped;
      x.assign_add(1);
      throw;
    }
  });
  begun.get_future().wait_for(patience);
  f.coordinator.schedule([] { throw special_error{"now"}; });
  EXPECT_THROW(f.coordinator.join(), special_error);
  EXPECT_EQ(stopped, 1);
  EXPECT_EQ(number(x), 0);
}

TEST(ClusterCoordinator, RejectsOptionsThatDoNotFit) {
  runtime actors;
  const parameter_server_strategy on{actors};
  EXPECT_THROW((cluster_coordinator{on, {.in_flight = 0}}),
               std::invalid_argument);
  EXPECT_THROW((cluster_coordinator{on, {.max_unfinished = 0}}),
               std::invalid_argument);
  EXPECT_THROW((cluster_coordinator{on, {.interleaved = 0}}),
               std::invalid_argument);
  EXPECT_THROW((cluster_coordinator{on, {.in_flight = 2, .interleaved = 3}}),
               std::invalid_argument);
}

TEST(ClusterCoordinator, WaitsIfTooManyClosuresAreNotDone) {
  fixture f{{.workers = 1}, {.max_unfinished = 3}};
  std::promise<void> release;
  const auto go = release.get_future().share();
  std::atomic<bool> released = false;
  for (int i = 0; i < 3; ++i)
    f.coordinator.schedule([go] { go.wait_for(patience); });
  std::thread other{[&] {
    f.coordinator.schedule([] {});
    EXPECT_TRUE(released);
  }};
  EXPECT_FALSE(f.coordinator.join_for(20ms));
  released = true;
  release.set_value();
  other.join();
  f.join();
}

// -- workers that come and go -------------------------------------------------

TEST(ClusterCoordinator, WaitsForSomeOfTheClosures) {
  runtime actors;
  const parameter_server_strategy on{actors, {.workers = 2}};
  cluster_coordinator coordinator{on};
  std::promise<void> opened;
  const auto open = opened.get_future().share();
  std::vector<remote_value<int>> all{
    coordinator.schedule([open] { return open.wait(), 1; }),
    coordinator.schedule([] { return 2; }),
    coordinator.schedule([] { return 3; })};
  const std::span<const remote_value<int>> some{all};
  EXPECT_TRUE(coordinator.wait_for_some(some, 0, 0ms));
  EXPECT_FALSE(coordinator.wait_for_some(some, 3, 1ms));
  EXPECT_TRUE(coordinator.wait_for_some(some, 2, patience));
  EXPECT_EQ(all[0].status(), remote_value_status::not_ready);
  EXPECT_EQ(all[1].get() + all[2].get(), 5);
  opened.set_value();
  EXPECT_TRUE(coordinator.wait_for_some(some, 3, patience));
  EXPECT_EQ(all[0].status(), remote_value_status::ready);
  all.push_back(
    coordinator.schedule([]() -> int { throw std::runtime_error("thrown"); }));
  EXPECT_TRUE(coordinator.wait_for_some(std::span<const remote_value<int>>{all},
                                        4, patience));
  EXPECT_EQ(all[3].status(), remote_value_status::aborted);
  EXPECT_THROW(coordinator.join(), std::runtime_error);
}

/// A25: closures that are endless in their first execution.
TEST(ClusterCoordinator, ExecutesTheClosureOfARemovedWorkerAgain) {
  fixture f{{.servers = 2, .workers = 1}};
  const auto x = f.counter("x");
  std::promise<void> begun;
  std::vector<remote_value<std::uint32_t>> all;
  for (int i = 0; i < 5; ++i)
    all.push_back(f.coordinator.schedule([&, i](closure_context& self) {
      x.assign_add(1);
      if (i == 0 && self.attempt() == 1) {
        begun.set_value();
        EXPECT_TRUE(becomes_true([&] { return self.stopped(); }));
      }
      return self.attempt();
    }));
  begun.get_future().wait_for(patience);
  EXPECT_TRUE(f.coordinator.remove_worker(0));
  EXPECT_TRUE(f.coordinator.workers().empty());
  EXPECT_FALSE(f.coordinator.join_for(1ms));
  EXPECT_EQ(f.coordinator.add_worker(), 0u);
  f.join();
  EXPECT_EQ(number(x), 5);
  EXPECT_EQ(all[0].get(), 2u);
  EXPECT_EQ(all[4].get(), 1u);
}

/// A30
TEST(ClusterCoordinator, KeepsTheResultOfARemovedWorker) {
  fixture f{{.workers = 1}};
  const auto x = f.coordinator.schedule([] { return std::string{"kept"}; });
  f.join();
  EXPECT_TRUE(f.coordinator.remove_worker(0));
  EXPECT_EQ(x.get(), "kept");
  EXPECT_THROW(f.coordinator.remove_worker(0), std::invalid_argument);
}

/// The parameter is the number of closures that a worker executes at a time.
class CoordinatorWithFaults : public ::testing::TestWithParam<std::uint32_t> {};

INSTANTIATE_TEST_SUITE_P(Interleaved, CoordinatorWithFaults,
                         ::testing::Values(1U, 3U));

/// Closures move 1 from x to y, or back, while workers are removed and added.
TEST_P(CoordinatorWithFaults, CountsEachClosureOnceWhileWorkersComeAndGo) {
  constexpr int closures = 400;
  fixture f{{.servers = 3, .workers = 3},
            {.in_flight = 3, .interleaved = GetParam()}};
  const auto x = f.counter("x", 100), y = f.counter("y"), n = f.counter("n");
  std::mt19937 dice{7};
  int removals = 0;
  for (int i = 0; i < closures; ++i) {
    f.coordinator.schedule([&] {
      const auto step = number(x) > number(y) ? 1 : -1;
      x.assign_sub(step);
      y.assign_add(step);
      n.assign_add(1);
    });
    if (i % 10 == 5) {
      const auto all = f.coordinator.workers();
      ASSERT_TRUE(f.coordinator.remove_worker(all[dice() % all.size()]));
      f.coordinator.add_worker();
      ++removals;
    }
  }
  f.join();
  EXPECT_EQ(removals, closures / 10);
  EXPECT_EQ(number(n), closures);
  EXPECT_EQ(number(x) + number(y), 100);
}

// -- datasets -----------------------------------------------------------------

data::dataset numbers_to(std::int64_t n) {
  tensor out{{n, 1}};
  for (std::int64_t i = 0; i < n; ++i)
    out.mutable_data<float>()[std::size_t(i)] = float(i);
  return {out, {}};
}

TEST(ClusterCoordinator, AWorkerReadsItsDatasetInOrder) {
  fixture f{{.workers = 1}};
  const auto elements = f.coordinator.create_per_worker_dataset(numbers_to(3));
  std::vector<remote_value<float>> read;
  for (int i = 0; i < 3; ++i)
    read.push_back(f.coordinator.schedule(
      [](worker_dataset& from) { return from.next().inputs.item<float>(); },
      elements));
  EXPECT_EQ(f.coordinator.fetch(read), (std::vector<float>{0, 1, 2}));
  const auto after =
    f.coordinator.schedule([](worker_dataset& from) { from.next(); }, elements);
  EXPECT_THROW(after.get(), end_of_dataset);
  EXPECT_THROW(f.coordinator.join(), end_of_dataset);
}

/// What an execution that does not count has read is read again.
TEST(ClusterCoordinator, ThePositionOfADatasetSurvivesTheWorker) {
  fixture f{{.workers = 1}};
  const auto elements = f.coordinator.create_per_worker_dataset(numbers_to(9));
  std::promise<void> begun;
  const auto read = [&](closure_context& self, worker_dataset& from) {
    const auto a = from.next().inputs.item<float>();
    const auto b = from.next().inputs.item<float>();
    if (self.ordinal() == 1 && self.attempt() == 1) {
      begun.set_value();
      EXPECT_TRUE(becomes_true([&] { return self.stopped(); }));
    }
    if (self.ordinal() == 2)
      throw special_error{"after it has read"};
    return a * 10 + b;
  };
  const auto first = f.coordinator.schedule(read, elements);
  const auto second = f.coordinator.schedule(read, elements);
  begun.get_future().wait_for(patience);
  ASSERT_TRUE(f.coordinator.remove_worker(0));
  f.coordinator.add_worker();
  EXPECT_EQ(first.get(), 1);
  EXPECT_EQ(second.get(), 23);
  f.coordinator.schedule(read, elements);
  EXPECT_THROW(f.coordinator.join(), special_error);
  EXPECT_EQ(f.coordinator.schedule(read, elements).get(), 45);
}

/// Elements count as often as closures that count have read them, whatever
/// happens to the others.
TEST_P(CoordinatorWithFaults, NoElementOfADatasetIsLostOrCountedTwice) {
  constexpr int elements = 300;
  fixture f{{.servers = 2, .workers = 1},
            {.in_flight = 3, .interleaved = GetParam()}};
  const auto sum = f.counter("sum"), count = f.counter("count");
  const auto from =
    f.coordinator.create_per_worker_dataset(numbers_to(elements));
  std::mt19937 dice{11};
  int errors = 0, removals = 0;
  const auto read = [&](bool throws) {
    return [&, throws](worker_dataset& numbers) {
      const auto x = numbers.next().inputs.item<float>();
      EXPECT_LE(number(count), elements); // another closure may begin here
      sum.assign_add(x);
      count.assign_add(1);
      if (throws)
        throw special_error{"after it has read"};
    };
  };
  while (number(count) < elements) {
    const auto left = elements - int(number(count));
    try {
      for (int i = 0; i < std::min(left, 10); ++i) {
        f.coordinator.schedule(read(dice() % 20 == 0), from);
        if (dice() % 10 == 0) {
          ASSERT_TRUE(f.coordinator.remove_worker(0));
          f.coordinator.add_worker();
          ++removals;
        }
      }
      f.join();
    } catch (const special_error&) {
      ++errors;
    }
    if (f.coordinator.workers().empty())
      f.coordinator.add_worker();
  }
  EXPECT_GT(errors, 3);
  EXPECT_GT(removals, 10);
  EXPECT_EQ(number(count), elements);
  EXPECT_EQ(number(sum), elements * (elements - 1) / 2);
  const auto after = f.coordinator.schedule(read(false), from);
  EXPECT_THROW(after.get(), end_of_dataset);
}

// -- training -----------------------------------------------------------------

/// One worker trains as the update rule does on one device.
TEST(ClusterCoordinator, TrainsWithATape) {
  fixture f{{.servers = 2, .workers = 1}};
  const std::vector<server_variable> w{f.counter("w", 0.5), f.counter("b", -1)};
  const server_optimizer optimizer{f.on, adam{.learning_rate = 0.1F}};
  const auto elements =
    f.coordinator.create_per_worker_dataset(numbers_to(8).batch(2));
  const auto loss_of = [](const tensor& a, const tensor& b, const tensor& x) {
    const auto error = a * x + b - 3.0 * x;
    return reduce_mean(error * error);
  };
  std::vector<remote_value<float>> losses;
  for (int i = 0; i < 4; ++i)
    losses.push_back(f.coordinator.schedule(
      [&](worker_dataset& from) {
        const auto x = from.next().inputs;
        tape t;
        const std::vector<tensor> watched{t.watch(w[0].value()),
                                          t.watch(w[1].value())};
        const auto loss = loss_of(watched[0], watched[1], x);
        const auto gradients = t.gradient(loss, watched);
        optimizer.apply(gradients, w);
        return loss.item<float>();
      },
      elements));
  f.join();
  auto expected = tensor::of<float>({2}, {0.5F, -1});
  auto m = tensor::zeros({2}), v = tensor::zeros({2});
  const update_rule rule = adam{.learning_rate = 0.1F};
  for (int i = 0; i < 4; ++i) {
    const auto x =
      numbers_to(8).batch(2).iterate({0, std::uint64_t(i)}).next()->inputs;
    tape t;
    const std::vector<tensor> watched{
      t.watch(expected.range(0, 1).reshaped({}).clone()),
      t.watch(expected.range(1, 2).reshaped({}).clone())};
    const auto loss = loss_of(watched[0], watched[1], x);
    EXPECT_EQ(losses[std::size_t(i)].get(), loss.item<float>());
    const auto gradients = t.gradient(loss, watched);
    const auto g = tensor::of<float>(
      {2}, {gradients[0].item<float>(), gradients[1].item<float>()});
    const std::vector<std::span<float>> slots{m.mutable_data<float>(),
                                              v.mutable_data<float>()};
    rule.apply(expected.mutable_data<float>(), g.data<float>(), slots,
               std::uint64_t(i + 1), rule.learning_rate());
  }
  EXPECT_EQ(number(w[0]), expected.data<float>()[0]);
  EXPECT_EQ(number(w[1]), expected.data<float>()[1]);
}

// -- values of TensorFlow -----------------------------------------------------

TEST(ClusterCoordinator, ReplaysTensorFlow) {
  if (!test::tf_values_file())
    GTEST_SKIP() << "set TROUPE_TF_VALUES";
  test::replay(
    test::tf_values("coordinator"),
    {{"coordinator/plain_function", "every C++ function can be scheduled"},
     {"coordinator/not_callable", "does not compile"}},
    [](const nlohmann::json& entry) {
      const auto id = entry.at("id").get<std::string>();
      fixture f;
      const auto x = f.counter("x");
      const auto count = entry.at("inputs").value("count", 0);
      if (id == "coordinator/schedule_join_fetch") {
        std::vector<remote_value<double>> all;
        for (int i = 0; i < count; ++i)
          all.push_back(f.coordinator.schedule([&x, i] {
            x.assign_add(i);
            return 2.0 * i;
          }));
        f.join();
        const auto& expected = entry.at("expected");
        EXPECT_EQ(number(x), expected.at("counter").get<double>());
        EXPECT_EQ(f.coordinator.done(), expected.at("done").get<bool>());
        EXPECT_EQ(f.coordinator.fetch(all),
                  expected.at("fetched").get<std::vector<double>>());
      } else if (id == "coordinator/closures_3_and_4_fail") {
        for (int i = 0; i < count; ++i)
          f.coordinator.schedule([i] {
            if (i >= 3)
              throw special_error{"i >= 3"};
          });
        EXPECT_THROW(f.coordinator.join(), special_error);
        EXPECT_NO_THROW(f.coordinator.join());
        const auto later = entry.at("expected").at("later").get<double>();
        EXPECT_EQ(f.coordinator.schedule([] { return 8.0; }).get(), later);
      } else if (id == "coordinator/dataset_ends") {
        const auto elements =
          f.coordinator.create_per_worker_dataset(numbers_to(2));
        EXPECT_THROW(
          {
            for (int i = 0; i < entry.at("inputs").at("closures"); ++i)
              f.coordinator.schedule([](worker_dataset& from) { from.next(); },
                                     elements);
            f.coordinator.join();
          },
          end_of_dataset);
      } else {
        ADD_FAILURE() << "the test does not know the entry";
      }
    });
}

TEST(ClusterCoordinator, MeasuresTheStalenessOfGradients) {
  fixture f{{.servers = 1, .workers = 2}};
  const auto w = f.counter("w");
  const auto other = f.counter("other");
  const server_optimizer optimizer{f.on, sgd{}};
  const auto apply = [&] {
    optimizer.apply(std::vector{tensor::full({}, 1)}, std::vector{w});
  };
  const auto staleness = [&] { return f.on.status()[0].staleness; };
  std::promise<void> has_read, may_end;
  const auto slow =
    f.coordinator.schedule([&, end = may_end.get_future().share()] {
      const auto value = number(w);
      has_read.set_value();
      end.wait_for(patience);
      static_cast<void>(number(w)); // a later read has no effect
      apply();
      return value;
    });
  ASSERT_EQ(has_read.get_future().wait_for(patience),
            std::future_status::ready);
  for (int i = 0; i < 3; ++i)
    f.coordinator
      .schedule([&] {
        static_cast<void>(number(w));
        other.assign_add(1); // a change of another variable does not count
        apply();
        return 0;
      })
      .get();
  EXPECT_EQ(staleness().gradients, 3u);
  EXPECT_EQ(staleness().largest, 0u);
  may_end.set_value();
  EXPECT_EQ(slow.get(), 0);
  f.join();
  EXPECT_EQ(staleness().gradients, 4u);
  EXPECT_EQ(staleness().sum, 3u);
  EXPECT_EQ(staleness().largest, 3u);
  EXPECT_EQ(staleness().mean(), 0.75);
  // A gradient of what the closure has not read is not measured.
  f.coordinator.schedule([&] {
    apply();
    return 0;
  });
  f.join();
  EXPECT_EQ(staleness().gradients, 4u);
}

} // namespace
} // namespace troupe
