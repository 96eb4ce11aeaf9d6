#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/models/layers.hpp"
#include "troupe/models/losses.hpp"
#include "troupe/tests/support/timeouts.hpp"
#include "troupe/training/loop/options/metric_list.hpp"
#include "troupe/training/parameter_server/cluster_coordinator.hpp"
#include "troupe/training/parameter_server/parameter_servers.hpp"
#include "troupe/training/parameter_server/replica_steps.hpp"
#include "troupe/training/parameter_server/synchronous_steps.hpp"
#include "troupe/training/parameter_server/training_chief.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

// A replica whose worker is lost: another worker goes on with its steps.

namespace troupe {
namespace {

using parameter_server::consistency;
using parameter_server::consistency_kind;
using troupe::test::patience;

constexpr std::uint64_t steps = 4;

models::model_description single_unit() {
  return {
    .name = "unit", .input = {2}, .layers = models::stack(models::dense{1})};
}

struct moved_replica {
  explicit moved_replica(const consistency& rule) {
    training = on.servers()->begin_training(*network->training(),
                                            std::vector<consistency>{rule}, 1,
                                            network->optimizer().number());
  }

  train_task task(std::uint64_t first, std::uint64_t last,
                  bool is_synchronous) const {
    train_task out{.training = training,
                   .first = first,
                   .last = last,
                   .is_synchronous = is_synchronous,
                   .batches = steps};
    if (!is_synchronous)
      out.learning_rates.assign(last - first, 0.5F);
    return out;
  }

  std::vector<step_metrics> make(const train_task& what,
                                 closure_context& self) const {
    return replica_steps{*network, *batches, what, self}.run();
  }

  /// Waits as a replica that must not read yet, until its worker is removed.
  void wait_for_end(std::uint64_t step) const {
    server_replica waiting{*current_closure(), network->training(), training,
                           0};
    const std::array all{server_replica::read{0, {}}};
    waiting.pull(step, all);
  }

  /// Executes a closure, and removes its first worker.
  /// @param first executed by the first worker. It must not end.
  template <class F, class G>
  auto move(const closure_options& options, F first, G then) {
    std::promise<std::uint32_t> waits;
    auto worker = waits.get_future();
    const auto done = coordinator.schedule_with(
      options, [&, first, then](closure_context& self) {
        if (self.attempt() == 1)
          first(self, [&] { waits.set_value(self.worker()); });
        return then(self);
      });
    coordinator.remove_worker(worker.get());
    const std::vector all{done};
    if (!coordinator.wait_for_some(std::span{all}, 1, patience / 3))
      throw std::runtime_error{"the second worker does not end"};
    return done.get();
  }

  runtime actors;
  parameter_server_strategy on{actors, {.servers = 1, .workers = 2}};
  std::shared_ptr<const server_network> network =
    std::make_shared<server_network>(
      on, "unit", single_unit(), sgd{.learning_rate = 0.25F},
      model_options{.loss = "mean_squared_error"});
  std::shared_ptr<const server_batches> batches =
    std::make_shared<server_batches>(
      metrics_of(models::find_loss("mean_squared_error"), std::nullopt),
      std::vector<float>{},
      data::dataset{tensor::full({2 * steps, 2}, 1),
                    tensor::full({2 * steps, 1}, 3)}
        .batch(2),
      std::nullopt);
  cluster_coordinator coordinator{on};
  std::uint64_t training = 0;
};

/// The first worker has pushed a step, and its report is lost with it.
TEST(ReplicaSteps, RepeatASynchronousStepWhoseReportMayBeLost) {
  moved_replica f{{consistency_kind::synchronous, 0, 0}};
  const auto known =
    std::make_shared<synchronous_steps>(synchronous_steps::options{
      1, false, std::vector<float>(steps, 0.5F), [](std::uint64_t) {}});
  lead_training what{.training = f.training};
  std::promise<void> all_decided;
  what.factors = [known](std::uint64_t step,
                         const std::vector<std::uint32_t>& from) {
    return known->decide(step, from);
  };
  what.on_decided = [known, &all_decided](std::uint64_t count) {
    known->on_decided(count);
    if (count == steps)
      all_decided.set_value();
  };
  const training_chief chief{*f.on.servers(), what, [](const job_error&) {}};
  const auto sums = f.batches->metrics.sum_count();
  const auto on_report = [&](const tensors& x) {
    auto report = decode_replica_report(x, sums);
    const auto next = report.step + 1;
    known->on_report(0, std::move(report));
    tell_chief(f.on.servers()->router(), f.training, 0, next);
  };
  f.move(
    {.on_report = on_report, .waits_for_others = true},
    [&](closure_context&, const auto& waits) {
      server_replica lost{*current_closure(), f.network->training(), f.training,
                          0};
      const std::array all{server_replica::read{0, {}}};
      const auto values = lost.pull(0, all);
      const parameter_gradients zeros{tensor::zeros(values[0].dims())};
      lost.push(0, zeros, {});
      waits();
      f.wait_for_end(1);
    },
    [&](closure_context& self) {
      return f.make(f.task(0, steps, true), self);
    });
  ASSERT_EQ(all_decided.get_future().wait_for(patience),
            std::future_status::ready);
  EXPECT_EQ(known->wait({}).decided.size(), steps);
  // The contribution of the first worker counts, which has moved nothing.
  EXPECT_EQ(f.on.status()[0].updates, steps);
}

/// The second worker makes all steps of its task, so that it has their metrics.
/// The servers keep what the first one has contributed to two of them.
TEST(ReplicaSteps, MakeAllStepsWithoutAChiefAgain) {
  moved_replica f{{consistency_kind::asynchronous, 0, 0}};
  const auto metrics = f.move(
    {},
    [&](closure_context& self, const auto& waits) {
      f.make(f.task(0, 2, false), self);
      waits();
      f.wait_for_end(100); // waits for steps that are never made
    },
    [&](closure_context& self) {
      return f.make(f.task(0, steps, false), self);
    });
  ASSERT_EQ(metrics.size(), steps);
  for (const auto& one : metrics)
    EXPECT_EQ(one.examples, 2u);
  EXPECT_EQ(f.on.status()[0].updates, steps);
}

} // namespace
} // namespace troupe
