#include "nccl_workers.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/support/error_text.hpp"
#include "troupe/training/loop/model/optimizer.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

// Processes with two devices each.

namespace {

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

TEST(NcclDevices, OfSeveralProcessesHaveARankEach) {
  nccl_workers workers;
  workers.options.devices = {"cuda:0", "cuda:1"};
  std::vector<std::string> found(2);
  expect_nothing_thrown(run_on_cluster(
    2, workers.options, [&](const strategy& on, std::uint32_t w) {
      EXPECT_TRUE(uses_nccl(on));
      found[w] = weights_after_fit(on);
    }));
  for (const auto& one : found)
    EXPECT_EQ(one, weights_after_fit(turns(4)));
  for (std::size_t rank = 0; rank < 4; ++rank)
    EXPECT_GT(workers.nccl->groups_of(rank).size(), 10u);
  EXPECT_EQ(workers.nccl->count(workers.nccl->joins), 2 * 4); // of two epochs
}

/// The process that is left has two ranks, of which one has two replicas.
TEST(NcclDevices, TakeTheReplicasOfALostWorkerInTurn) {
  nccl_workers workers;
  workers.options.devices = {"cuda:0", "cuda:1"};
  std::array<std::string, 3> found;
  const auto thrown = run_on_cluster(
    3, workers.options, [&](const strategy& on, std::uint32_t w) {
      const auto scope = on.scope();
      auto it = small_model();
      fit_options how{.epochs = 2};
      how.callbacks.push_back({.on_step = [&](const step_record& x) {
        if (w == 1 && x.step == 3)
          cut_off(on);
      }});
      it.fit(uneven_batches(), how);
      EXPECT_EQ(on.local_replica_ids().size(), 3u);
      EXPECT_TRUE(uses_nccl(on));
      found[w] = it.weights_sha256();
    });
  EXPECT_NE(exception_text(thrown[1]), "");
  for (const std::uint32_t w : {0, 2}) {
    EXPECT_EQ(exception_text(thrown[w]), "");
    EXPECT_EQ(found[w], weights_after_fit(turns(6)));
  }
}

/// A process whose replicas run on two devices.
struct nccl_process {
  explicit nccl_process(backends collectives, fake_device_options second = {})
    : on{actors,
         {"cuda:0", "cuda:1"},
         {.step_timeout = 8s,
          .collectives = collectives,
          .nccl_device = [this, second](const device& one) {
            return nccl->make_device(one.index == 1 ? second
                                                    : fake_device_options{});
          }}} {}
  ~nccl_process() { EXPECT_EQ(nccl->violations(), std::set<std::string>{}); }

  std::size_t groups() { return nccl->groups_of(0).size(); }

  simulated_devices devices;
  std::shared_ptr<fake_nccl> nccl = std::make_shared<fake_nccl>(
    fake_nccl::options{.seed = 5, .steps_in_queries = true});
  runtime actors;
  mirrored_strategy on;
};

TEST(NcclDevices, OfOneProcessHaveARankEach) {
  const auto expected = weights_after_fit(turns(2));
  for (const auto how : {backends::automatic, backends::nccl, backends::host}) {
    nccl_process it{how};
    EXPECT_EQ(weights_after_fit(it.on), expected);
    EXPECT_EQ(it.groups() > 10, how != backends::host);
    EXPECT_EQ(it.nccl->late_allocations(), 0);
  }
}

/// Trains in a loop of one's own, and reduces other tensors too.
std::pair<std::string, double> weights_after_loop(const strategy& on) {
  const auto scope = on.scope();
  auto it = small_model();
  optimizer own{adam{}};
  double means = 0;
  for (const auto& step : on.distribute(uneven_batches())) {
    const auto seen = on.run(
      [&](replica_context& self, const batch& mine) {
        tape t;
        const auto loss = models::cross_entropy(
                            it(mine.inputs, {.training = true}), mine.labels)
                          / 16;
        own.apply(self.all_reduce(sum, t.gradient(loss, it.variables())),
                  it.variables());
        const auto mean_of = [&](const tensor& x) {
          const auto out = self.all_reduce(mean, x);
          EXPECT_EQ(out.device(), x.device());
          return out.to({}).data<float>()[0];
        };
        const auto x = mine.inputs.slice(0, 1).detach() + 0.5;
        return tensor::of<float>(
          {4},
          {mean_of(x), mean_of(x.to({})),
           self.all_reduce(sum, x, {.implementation = implementations::ring})
             .to({})
             .data<float>()[0],
           float(self.all_reduce(sum, mine.labels.slice(0, 1))
                   .to({})
                   .data<std::int32_t>()[0])});
      },
      step);
    for (const auto value : on.reduce(sum, seen).data<float>())
      means += double(value);
  }
  return {it.weights_sha256(), means};
}

TEST(NcclDevices, AddTheSumsOfALoop) {
  const auto expected = weights_after_loop(turns(2));
  for (const auto how : {backends::nccl, backends::host}) {
    nccl_process it{how};
    EXPECT_EQ(weights_after_loop(it.on), expected);
    EXPECT_EQ(it.groups() > 10, how == backends::nccl);
  }
  expect_by_nccl(2, weights_after_loop, expected);
}

/// A tensor of the program may be on the device of another replica.
TEST(NcclDevices, AddTensorsOfOtherDevices) {
  nccl_process it{backends::nccl};
  const auto shared = tensor::of<float>({2}, {1, 2}).to({device_kind::cuda, 0});
  const auto found = it.on.run(
    [&](replica_context& self) { return self.all_reduce(sum, shared).to({}); });
  EXPECT_EQ(found.values()[1].data<float>()[1], 4);
  EXPECT_GT(it.groups(), 0u);
}

/// One replica has updated its copy, and the other one has not.
TEST(NcclDevices, AStepOfALoopThatFailsChangesNoCopy) {
  for (const auto how : {backends::nccl, backends::host}) {
    nccl_process it{how};
    const auto scope = it.on.scope();
    auto trained = small_model();
    optimizer own{adam{}};
    const auto before = trained.weights_sha256();
    const auto step = [&](bool fails) {
      it.on.run([&](replica_context& self) {
        const auto gradient =
          tensor::full(trained.variables()[0].dims(), 1).to(self.device());
        const auto total = self.all_reduce(sum, gradient);
        if (!fails || self.replica_id() == 0)
          own.apply(std::vector{total},
                    std::vector<variable>{trained.variables()[0]});
        self.all_reduce(sum, tensor::full({1}, 1));
        if (fails && self.replica_id() == 1)
          throw std::out_of_range("the user's error");
      });
    };
    EXPECT_THROW(step(true), std::out_of_range);
    EXPECT_EQ(trained.weights_sha256(), before);
    trained.evaluate(uneven_batches()); // compares the copies
    EXPECT_EQ(own.steps(), 0u);
    step(false);
    EXPECT_NE(trained.weights_sha256(), before);
    trained.evaluate(uneven_batches());
  }
}

TEST(NcclDevices, ThatCannotBeUsedLetTheHostAdd) {
  const fake_device_options broken{.broken = broken_call::make_stream};
  {
    nccl_process it{backends::automatic, broken};
    EXPECT_EQ(weights_after_fit(it.on), weights_after_fit(turns(2)));
    EXPECT_EQ(it.groups(), 0u);
  }
  EXPECT_NE(text_of([&] {
              nccl_process{backends::nccl, broken};
            }).find("this process cannot use NCCL: "),
            std::string::npos);
  simulated_devices devices;
  runtime actors;
  EXPECT_EQ(text_of([&] {
              mirrored_strategy{
                actors, {"cpu:0", "cpu:1"}, {.collectives = backends::nccl}};
            }),
            "collectives nccl: cpu:0 is no CUDA device; name a CUDA device of "
            "a machine with NCCL, as in gpu:0, or give collectives host");
}

/// If NCCL is not required, the host adds from then on.
TEST(NcclDevices, OfOneProcessGoOnAfterAnErrorOfNccl) {
  const auto expected = weights_after_fit(turns(2));
  for (const auto how : {backends::automatic, backends::nccl}) {
    nccl_process it{how};
    const auto scope = it.on.scope();
    auto trained = small_model();
    fit_options options{.epochs = 2};
    std::size_t groups_at_error = 0;
    options.callbacks.push_back({.on_step = [&](const step_record& x) {
      if (x.step != 7 || x.repeated)
        return;
      groups_at_error = it.groups();
      it.nccl->fail_communicators("a cable is broken");
    }});
    trained.fit(uneven_batches(), options);
    EXPECT_EQ(trained.weights_sha256(), expected);
    EXPECT_GT(it.on.state()->views, 0u);
    EXPECT_GT(groups_at_error, 0u);
    const auto groups_before = it.groups();
    trained.fit(uneven_batches());
    EXPECT_EQ(it.groups() > groups_before, how == backends::nccl);
  }
}

} // namespace
