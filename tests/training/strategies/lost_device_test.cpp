#include "losses.hpp"
#include "nccl_workers.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/support/becomes_true.hpp"
#include "troupe/tests/support/error_text.hpp"
#include "troupe/training/loop/model/optimizer.hpp"
#include "troupe/training/strategies/training_loop.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>

// Workers with a device each, one of which is lost while they train. Each
// worker is a thread of this process. A worker whose device is lost leaves the
// job, and the others go on to the undisturbed bits.

namespace {

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

device card(std::uint32_t index) {
  return {device_kind::cuda, index};
}

/// Workers of which each has the device with its number.
class workers_with_devices {
public:
  explicit workers_with_devices(std::uint32_t count) : count_{count} {}

  /// Calls `fn(strategy, worker)` on each worker.
  /// @returns what each worker has thrown. Empty: nothing.
  std::vector<std::string>
  run(const std::function<void(const strategy&, std::uint32_t)>& fn) {
    const net::reserved_ports ports{count_};
    net::cluster_spec::list addresses;
    for (const auto port : ports.numbers())
      addresses.push_back("127.0.0.1:" + std::to_string(port));
    const net::cluster_spec cluster{
      std::map<std::string, net::cluster_spec::list>{{"worker", addresses}}};
    std::vector<std::string> thrown(count_);
    std::vector<std::thread> threads;
    for (std::uint32_t w = 0; w < count_; ++w)
      threads.emplace_back([&, w] {
        try {
          runtime actors;
          auto how = options;
          how.devices = {to_string(card(w))};
          const net::simple_resolver who{cluster,
                                         {.task_type = "worker", .task_id = w}};
          fn(multi_worker_mirrored_strategy{actors, who, how}, w);
        } catch (const std::exception& e) {
          thrown[w] = e.what();
        }
      });
    for (auto& one : threads)
      one.join();
    return thrown;
  }

  simulated_devices devices{simulated_devices::max_devices};
  multi_worker_options options;

private:
  const std::uint32_t count_;
};

std::string loss_of(std::uint32_t w) {
  return to_string(card(w)) + " has failed: the test has lost it";
}

/// A loss of the device of one worker, some calls after the commit of a step.
struct planned_loss {
  std::uint32_t workers = 3, lost = 0;
  std::uint64_t step = 0, calls = 0;
};

/// Draws where a device is lost. A step makes some 100 calls of its device.
std::vector<planned_loss> draw_losses(std::uint32_t workers, unsigned seed) {
  std::mt19937 random{seed};
  std::vector<planned_loss> out;
  for (std::uint32_t lost = 0; lost < workers; ++lost)
    for (int i = 0; i < 3; ++i)
      out.push_back({workers, lost, 1 + random() % 20, random() % 150});
  return out;
}

/// Trains while the device of a worker is lost.
/// @param train trains on a worker, and calls its argument with the number of
///        each step. Returns the hash of the weights.
void expect_same_bits(
  const planned_loss& plan,
  const std::function<std::string(
    const strategy&, const std::function<void(std::uint64_t)>&)>& train) {
  SCOPED_TRACE("worker " + std::to_string(plan.lost) + " of "
               + std::to_string(plan.workers) + " loses its device after step "
               + std::to_string(plan.step) + " and "
               + std::to_string(plan.calls) + " calls");
  const auto expected = train(turns(plan.workers), [](auto) {});
  workers_with_devices them{plan.workers};
  std::vector<std::string> found(plan.workers);
  std::atomic<bool> is_planned = false;
  const auto thrown = them.run([&](const strategy& on, std::uint32_t w) {
    found[w] = train(on, [&](std::uint64_t step) {
      if (w == plan.lost && step == plan.step && !is_planned.exchange(true))
        them.devices.lose(card(w), plan.calls);
    });
  });
  EXPECT_TRUE(them.devices.is_lost(card(plan.lost)));
  for (std::uint32_t w = 0; w < plan.workers; ++w)
    if (w == plan.lost) {
      EXPECT_EQ(thrown[w],
                loss_of(w)
                  + "; so this process has left its job, and the others go on");
    } else {
      EXPECT_EQ(thrown[w], "");
      EXPECT_EQ(found[w], expected);
    }
}

/// Two epochs of 13 steps.
std::string weights_of_fit(const strategy& on,
                           const std::function<void(std::uint64_t)>& on_step) {
  const auto scope = on.scope();
  auto it = small_model();
  fit_options how{.epochs = 2};
  how.validation = uneven_batches();
  how.callbacks.push_back(
    {.on_step = [&](const step_record& x) { on_step(x.step); }});
  it.fit(uneven_batches(), how);
  return it.weights_sha256();
}

TEST(LostDevice, OfOneOfThreeWorkersChangesNoBit) {
  for (const auto& one : draw_losses(3, 7))
    expect_same_bits(one, weights_of_fit);
}

TEST(LostDevice, OfOneOfTwoWorkersChangesNoBit) {
  for (const auto& one : draw_losses(2, 8))
    expect_same_bits(one, weights_of_fit);
}

TEST(LostDevice, ChangesNoBitOfALoopOfOnesOwn) {
  const auto train = [](const strategy& on,
                        const std::function<void(std::uint64_t)>& on_step) {
    const auto scope = on.scope();
    auto it = small_model();
    optimizer own{adam{}};
    const auto batches = on.distribute(uneven_batches());
    for (auto& step : on.loop("train", batches, {.epochs = 2})) {
      on_step(step.number);
      on.run(
        [&](replica_context& self, const batch& mine) {
          tape t;
          const auto loss = models::cross_entropy(
                              it(mine.inputs, {.training = true}), mine.labels)
                            / 16;
          own.apply(self.all_reduce(sum, t.gradient(loss, it.variables())),
                    it.variables());
        },
        step.values);
    }
    return it.weights_sha256();
  };
  for (const auto& one : draw_losses(3, 9))
    expect_same_bits(one, train);
}

// -- with NCCL ----------------------------------------------------------------

/// NCCL notices the loss in the middle of a sum, before a call of the device
/// fails. The others go on through NCCL.
TEST(LostDevice, ThatNcclNoticesFirstIsThatOfAWorker) {
  constexpr std::uint32_t count = 3;
  for (const std::uint32_t lost : {0u, 2u}) {
    SCOPED_TRACE(lost);
    const auto nccl = std::make_shared<fake_nccl>(
      fake_nccl::options{.seed = 5, .steps_in_queries = true});
    workers_with_devices them{count};
    std::array<std::shared_ptr<communication_device>, count> cards;
    for (auto& one : cards)
      one = nccl->make_device();
    them.options.nccl_device = [&](const device& on) {
      return cards[on.index];
    };
    std::atomic<bool> may_watch = false, has_ended = false;
    std::thread watch{[&] {
      becomes_true(
        [&] { return (may_watch && nccl->is_frozen()) || has_ended; });
      if (has_ended)
        return;
      them.devices.lose(card(lost), 0);
      nccl->lose_device(lost);
    }};
    std::array<std::string, count> found;
    const auto thrown = them.run([&](const strategy& on, std::uint32_t w) {
      EXPECT_TRUE(uses_nccl(on));
      found[w] = weights_of_fit(on, [&](std::uint64_t step) {
        if (w == lost && step == 7 && !may_watch.exchange(true))
          nccl->freeze_in_the_middle();
      });
      EXPECT_TRUE(uses_nccl(on));
      EXPECT_EQ(on.state()->views, 1u);
    });
    has_ended = true;
    watch.join();
    EXPECT_EQ(nccl->violations(), std::set<std::string>{});
    EXPECT_TRUE(may_watch);
    for (std::uint32_t w = 0; w < count; ++w)
      if (w == lost) {
        EXPECT_EQ(thrown[w], loss_of(w)
                               + "; so this process has left its job, and the "
                                 "others go on");
      } else {
        EXPECT_EQ(thrown[w], "");
        EXPECT_EQ(found[w], weights_after_fit(turns(count)));
      }
  }
}

// -- jobs of one process ------------------------------------------------------

/// Loses a device in a fit, and expects that this and later calls say so.
void expect_loss_in_one_process(const strategy& on, simulated_devices& devices,
                                const device& lost) {
  const auto scope = on.scope();
  auto it = small_model();
  fit_options how{.epochs = 2};
  how.callbacks.push_back({.on_step = [&](const step_record& x) {
    if (x.step == 7)
      devices.lose(lost, 20);
  }});
  EXPECT_THROW(it.fit(uneven_batches(), how), device_lost);
  EXPECT_TRUE(devices.is_lost(lost));
  EXPECT_EQ(text_of([&] { it.fit(uneven_batches()); }),
            to_string(lost) + " has failed: the test has lost it");
  EXPECT_THROW(it.weights_sha256(), device_lost);
}

TEST(LostDevice, EndsAJobOfOneProcess) {
  simulated_devices devices;
  expect_loss_in_one_process(one_device_strategy{"cuda:0", {.replicas = 2}},
                             devices, card(0));
}

TEST(LostDevice, EndsAJobOfOneProcessThroughNccl) {
  simulated_devices devices;
  runtime actors;
  const auto nccl = std::make_shared<fake_nccl>(
    fake_nccl::options{.seed = 5, .steps_in_queries = true});
  const mirrored_strategy on{
    actors,
    {"cuda:0", "cuda:1"},
    {.collectives = backends::nccl,
     .nccl_device = [&](const device&) { return nccl->make_device(); }}};
  expect_loss_in_one_process(on, devices, card(0));
}

} // namespace
