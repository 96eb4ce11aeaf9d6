#include "losses.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/tests/actors/collectives/nccl/fake_nccl.hpp"
#include "troupe/tests/support/error_text.hpp"
#include "troupe/tests/tensors/simulated_device.hpp"
#include "troupe/training/loop/optimizer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

// Workers with one device each, whose sums NCCL adds. Devices and NCCL are
// simulated: kernels run those of the CPU, so all results have the bits of one
// process on the CPU, and a host that reads a tensor of a device crashes.

namespace {

using namespace troupe;
using namespace troupe::test;
using troupe::testing::fake_device_options;
using troupe::testing::fake_nccl;
using namespace std::chrono_literals;
using implementations = communication_options::implementations;
using backends = communication_options::backends;
using broken_call = fake_device_options::broken_call;

/// The devices of all workers of a test.
struct nccl_workers {
  /// @param of_worker what the device of each worker tells of itself.
  explicit nccl_workers(std::vector<fake_device_options> of_worker = {}) {
    options.devices = {"cuda:0"};
    options.communication.collectives = backends::nccl;
    // The workers are constructed in any order.
    options.nccl_device =
      [nccl = nccl, of_worker,
       next = std::make_shared<std::atomic<std::size_t>>(0)](const device&) {
        const auto w = (*next)++;
        return nccl->make_device(w < of_worker.size() ? of_worker[w]
                                                      : fake_device_options{});
      };
  }
  ~nccl_workers() { EXPECT_EQ(nccl->violations(), std::set<std::string>{}); }

  /// Number of groups that the first device has started. Zero also if no worker
  /// has made a device.
  std::size_t groups() { return nccl->groups_of(0).size(); }

  simulated_devices devices;
  std::shared_ptr<fake_nccl> nccl = std::make_shared<fake_nccl>(
    fake_nccl::options{.seed = 5, .steps_in_queries = true});
  multi_worker_options options;
};

bool uses_nccl(const strategy& on) {
  return on.transport().find("nccl") != std::string::npos;
}

/// Calls `fn(strategy)` on each worker, and expects that it returns `want` and
/// that NCCL has added the sums.
template <class F, class T>
void expect_by_nccl(std::uint32_t count, const F& fn, const T& want) {
  nccl_workers workers;
  std::vector<T> found(count);
  expect_nothing_thrown(run_on_cluster(
    count, workers.options, [&](const strategy& on, std::uint32_t w) {
      EXPECT_EQ(uses_nccl(on), count > 1) << on.transport();
      found[w] = fn(on);
    }));
  for (const auto& one : found)
    EXPECT_EQ(one, want);
  if (count > 1) {
    EXPECT_GT(workers.groups(), 10u);
  }
}

// -- bits ---------------------------------------------------------------------

TEST(NcclWorkers, FitHasTheBitsOfTheHost) {
  for (const std::uint32_t count : {1, 2, 3, 4})
    expect_by_nccl(count, weights_after_fit, weights_after_fit(turns(count)));
}

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

/// Counts the packets of sums that leave a worker over a lane.
class sum_counter final : public fault_injector {
public:
  injected_fault on_send(const role_id&, const role_id&, message_kind kind,
                         std::uint64_t, std::uint64_t) override {
    if (kind == message_kind::contribution)
      ++sums;
    return {};
  }
  std::atomic<int> sums = 0;
};

TEST(NcclWorkers, GradientsPassOverLanesOnlyIfTheHostAddsThem) {
  for (const auto how : {backends::host, backends::nccl}) {
    nccl_workers workers;
    const auto counter = std::make_shared<sum_counter>();
    workers.options.communication.collectives = how;
    workers.options.faults = counter;
    expect_nothing_thrown(run_on_cluster(
      2, workers.options, [&](const strategy& on, std::uint32_t) {
        EXPECT_EQ(uses_nccl(on), how == backends::nccl);
        weights_after_fit(on);
      }));
    EXPECT_EQ(workers.groups() > 0, how == backends::nccl);
    EXPECT_EQ(counter->sums > 0, how == backends::host);
  }
}

TEST(NcclWorkers, TheAllReduceOfNcclTrains) {
  nccl_workers workers;
  workers.options.communication = {.implementation = implementations::nccl};
  std::vector<std::string> found(2);
  expect_nothing_thrown(run_on_cluster(
    2, workers.options, [&](const strategy& on, std::uint32_t w) {
      EXPECT_TRUE(uses_nccl(on));
      found[w] = weights_after_fit(on);
    }));
  // The sum of two addends does not depend on their order.
  for (const auto& one : found)
    EXPECT_EQ(one, weights_after_fit(turns(2)));
  const auto groups = workers.nccl->groups_of(0);
  EXPECT_TRUE(std::ranges::any_of(
    groups, [](const std::string& text) { return text.starts_with("sum "); }));
}

TEST(NcclWorkers, FrozenVariablesAndSkippedStepsHaveTheBitsOfTheCpu) {
  const auto run = [](const strategy& on) {
    auto all = digits_200().examples(0, 80);
    auto inputs = all.inputs.clone();
    inputs.mutable_data<float>()[784 * 30] =
      std::numeric_limits<float>::quiet_NaN();
    const auto scope = on.scope();
    auto it = small_model();
    fit_options how{.epochs = 2, .on_nan = on_nan::skip};
    how.trainable = [](const variable& x) { return x.dims().rank() == 2; };
    it.fit(data::dataset{inputs, all.labels, 10}.batch(20), how);
    return it.weights_sha256();
  };
  expect_by_nccl(2, run, run(turns(2)));
}

/// The gradients are finite, so only the loss of one replica tells.
TEST(NcclWorkers, AnInfiniteLossOfOneReplicaIsSkipped) {
  models::register_loss(
    {"infinite_loss_of_the_nccl_workers_test", models::target_kind::any,
     [](const tensor& outputs, const tensor& labels) {
       const auto huge = labels.as(dtype::float32) * 1e38;
       return models::cross_entropy(outputs, (labels * 0.0).as(dtype::int32))
              + huge * 9;
     }});
  const auto run = [](const strategy& on) {
    auto some = digits_200().examples(0, 8);
    auto labels = tensor::full({8}, 0);
    labels.mutable_data<float>()[6] = 1; // of the last replica
    const auto scope = on.scope();
    model it{
      small_net(), sgd{}, {.loss = "infinite_loss_of_the_nccl_workers_test"}};
    const auto before = it.weights_sha256();
    for (int i = 0; i < 6; ++i)
      it.fit(data::dataset{some.inputs, labels}.batch(8),
             {.on_nan = on_nan::skip});
    EXPECT_EQ(it.weights_sha256(), before);
    return it.weights_sha256();
  };
  expect_by_nccl(2, run, run(turns(2)));
}

/// Each epoch and each evaluation begins another generation.
TEST(NcclWorkers, LaterGenerationsHaveCommunicatorsOfTheirOwn) {
  const auto run = [](const strategy& on) {
    const auto scope = on.scope();
    auto it = small_model();
    it.fit(uneven_batches());
    const auto between = it.evaluate(digits_200().batch(48)).loss;
    it.fit(uneven_batches());
    return std::pair{it.weights_sha256(), between};
  };
  nccl_workers workers;
  std::vector<std::pair<std::string, double>> found(2);
  expect_nothing_thrown(run_on_cluster(
    2, workers.options,
    [&](const strategy& on, std::uint32_t w) { found[w] = run(on); }));
  for (const auto& one : found)
    EXPECT_EQ(one, run(turns(2)));
  EXPECT_EQ(workers.nccl->count(workers.nccl->joins), 4);
}

// -- losses -------------------------------------------------------------------

/// Trains on three workers. When worker `lost` is in a step of the first epoch,
/// its process ends in the middle of a bucket.
void expect_recovery_in_the_middle_of_a_bucket(std::uint32_t lost) {
  constexpr std::uint32_t count = 3;
  nccl_workers workers;
  std::atomic<const strategy*> victim = nullptr;
  std::atomic<bool> may_watch = false, was_frozen = false;
  std::thread watch{[&] {
    const auto limit = std::chrono::steady_clock::now() + 60s;
    while (!(may_watch && workers.nccl->is_frozen())) {
      if (std::chrono::steady_clock::now() > limit)
        return;
      std::this_thread::yield();
    }
    was_frozen = true;
    cut_off(*victim);
  }};
  std::vector<std::string> weights(count);
  const auto thrown = run_on_cluster(
    count, workers.options, [&](const strategy& on, std::uint32_t w) {
      if (w == lost)
        victim = &on;
      const auto scope = on.scope();
      auto it = small_model();
      fit_options how{.epochs = 2};
      how.callbacks.push_back({.on_step = [&](const step_record& x) {
        if (w == lost && x.step == 7 && !may_watch.exchange(true))
          workers.nccl->freeze_in_the_middle();
      }});
      it.fit(uneven_batches(), how);
      weights[w] = it.weights_sha256();
      EXPECT_TRUE(uses_nccl(on));
    });
  watch.join();
  EXPECT_TRUE(was_frozen);
  EXPECT_GT(workers.nccl->count(workers.nccl->aborts), 0);
  for (std::uint32_t w = 0; w < count; ++w)
    if (w == lost) {
      EXPECT_NE(exception_text(thrown[w]), "");
    } else {
      EXPECT_EQ(exception_text(thrown[w]), "");
      EXPECT_EQ(weights[w], weights_after_fit(turns(count)));
    }
}

TEST(NcclWorkers, TheChiefIsLostInTheMiddleOfABucket) {
  expect_recovery_in_the_middle_of_a_bucket(0);
}

TEST(NcclWorkers, AWorkerIsLostInTheMiddleOfABucket) {
  expect_recovery_in_the_middle_of_a_bucket(2);
}

/// When a worker leaves, the other one hosts both replicas. Its communicator
/// has one rank.
TEST(NcclWorkers, TheLastWorkerGoesOnWithBothReplicas) {
  const auto fit = [](const strategy& on, const std::atomic<bool>& leave) {
    const auto scope = on.scope();
    auto it = small_model();
    fit_options how{.epochs = 5};
    how.leave = &leave;
    it.fit(uneven_batches(), how);
    return it.weights_sha256();
  };
  nccl_workers workers;
  std::array<std::atomic<bool>, 2> leaves{false, true};
  std::string weights;
  expect_nothing_thrown(run_on_cluster(
    2, workers.options, [&](const strategy& on, std::uint32_t w) {
      if (w == 1) {
        fit(on, leaves[1]);
        return;
      }
      weights = fit(on, leaves[0]);
      EXPECT_GT(on.state()->views, 0u);
      EXPECT_TRUE(
        static_cast<cluster*>(on.state()->cluster.get())->uses_nccl());
    }));
  EXPECT_EQ(weights, fit(turns(2), leaves[0]));
}

/// A rank that stands still for good is noticed, and the error says what the
/// job waits for.
TEST(NcclWorkers, ASumThatNeverEndsEndsTheJob) {
  nccl_workers workers;
  workers.options.communication.timeout = 5s;
  const auto thrown = run_on_cluster(
    2, workers.options, [&](const strategy& on, std::uint32_t w) {
      const auto scope = on.scope();
      auto it = small_model();
      fit_options how{.epochs = 2};
      how.callbacks.push_back({.on_step = [&](const step_record& x) {
        if (w == 0 && x.step == 3)
          workers.nccl->freeze_in_the_middle();
      }});
      it.fit(uneven_batches(), how);
    });
  for (const auto& one : thrown) {
    const auto text = exception_text(one);
    EXPECT_NE(text.find("stalled"), text.npos) << text;
    EXPECT_NE(text.find("replica 0 waits for the sum of bucket 0"), text.npos)
      << text;
  }
  EXPECT_TRUE(workers.nccl->is_frozen());
  EXPECT_GE(workers.nccl->count(workers.nccl->aborts), 2);
}

/// Trains on two workers, with an error after a step. The job goes on; if NCCL
/// is not required, the host adds from then on.
/// @param error makes the error.
void expect_job_goes_on_after(const std::function<void(fake_nccl&)>& error) {
  const auto expected = weights_after_fit(turns(2));
  for (const auto how : {backends::automatic, backends::nccl}) {
    nccl_workers workers;
    workers.options.communication.collectives = how;
    workers.options.communication.timeout = 20s;
    expect_nothing_thrown(run_on_cluster(
      2, workers.options, [&](const strategy& on, std::uint32_t w) {
        EXPECT_TRUE(uses_nccl(on));
        const auto scope = on.scope();
        auto it = small_model();
        fit_options options{.epochs = 2};
        options.callbacks.push_back({.on_step = [&](const step_record& x) {
          if (w == 0 && x.step == 7 && !x.repeated)
            error(*workers.nccl);
        }});
        it.fit(uneven_batches(), options);
        EXPECT_EQ(it.weights_sha256(), expected);
        EXPECT_EQ(uses_nccl(on), how == backends::nccl) << on.transport();
        EXPECT_GT(on.state()->views, 0u);
      }));
  }
}

TEST(NcclWorkers, TheJobGoesOnAfterAnErrorOfNccl) {
  expect_job_goes_on_after(
    [](fake_nccl& nccl) { nccl.fail_communicators("a cable is broken"); });
}

TEST(NcclWorkers, TheJobGoesOnIfADeviceHasTooLittleMemory) {
  expect_job_goes_on_after(
    [](fake_nccl& nccl) { nccl.fail_next_allocation(); });
}

// -- what cannot be -----------------------------------------------------------

/// Returns what each worker throws.
std::vector<std::string> texts_of(nccl_workers& workers) {
  std::vector<std::string> out;
  for (const auto& x :
       run_on_cluster(2, workers.options, [](const strategy&on, std::uint32_t) {
         weights_after_fit(on);
       }))
    out.push_back(exception_text(x));
  return out;
}

void expect_each_has(const std::vector<std::string>& texts,
                     const std::string& part) {
  for (const auto& one : texts)
    EXPECT_NE(one.find(part), one.npos) << one;
}

TEST(NcclWorkers, TwoWorkersOnOneCardAreRefused) {
  nccl_workers workers{{{"GPU-7"}, {"GPU-7"}}};
  expect_each_has(texts_of(workers),
                  "worker 0 and worker 1 have the same card (GPU-7), but NCCL "
                  "needs one for each worker");
  EXPECT_EQ(workers.nccl->count(workers.nccl->initializations), 0);
}

TEST(NcclWorkers, OtherVersionsOfNcclAreRefused) {
  nccl_workers workers{
    {{.library_version = "2.28.3"}, {.library_version = "2.27.7"}}};
  for (const auto& text : texts_of(workers)) {
    EXPECT_NE(text.find("NCCL 2.28.3"), text.npos) << text;
    EXPECT_NE(text.find("NCCL 2.27.7"), text.npos) << text;
    EXPECT_NE(text.find("install one version"), text.npos) << text;
  }
  EXPECT_EQ(workers.nccl->count(workers.nccl->initializations), 0);
}

TEST(NcclWorkers, AProcessorHasNoNccl) {
  nccl_workers workers;
  workers.options.devices = {"cpu:0"};
  expect_each_has(texts_of(workers),
                  "collectives nccl: cpu:0 is no CUDA device");
}

TEST(NcclWorkers, AMissingLibraryIsASentence) {
  nccl_workers workers;
  workers.options.nccl_device =
    [](const device&) -> std::shared_ptr<communication_device> {
    throw device_error{"NCCL cannot be used: libnccl.so.2 was not found"};
  };
  expect_each_has(texts_of(workers),
                  "collectives nccl: NCCL cannot be used: libnccl.so.2 was not "
                  "found; name a CUDA device of a machine with NCCL, as in "
                  "gpu:0, or give collectives host");
}

TEST(NcclWorkers, ABrokenCardIsASentence) {
  for (const auto broken : {broken_call::identity, broken_call::make_stream}) {
    nccl_workers workers{{{.broken = broken}}};
    expect_each_has(texts_of(workers), "failed: the card is broken");
  }
}

/// `automatic` uses the host where `nccl` is refused, with the same bits.
TEST(NcclWorkers, AutomaticAddsOnTheHostIfAWorkerCannotUseNccl) {
  const auto expected = weights_after_fit(turns(2));
  const auto expect_host = [&](nccl_workers& workers) {
    workers.options.communication.collectives = backends::automatic;
    expect_nothing_thrown(run_on_cluster(
      2, workers.options, [&](const strategy& on, std::uint32_t) {
        EXPECT_FALSE(uses_nccl(on)) << on.transport();
        EXPECT_EQ(weights_after_fit(on), expected);
      }));
    EXPECT_EQ(workers.nccl->count(workers.nccl->initializations), 0);
  };
  {
    nccl_workers same_card{{{"GPU-7"}, {"GPU-7"}}};
    expect_host(same_card);
  }
  {
    nccl_workers without_library;
    const auto make = without_library.options.nccl_device;
    without_library.options.nccl_device =
      [=, n = std::make_shared<std::atomic<int>>(0)](const device& on) {
        if ((*n)++ == 0)
          throw device_error{"there is no NCCL"};
        return make(on);
      };
    expect_host(without_library);
  }
  for (const auto broken : {broken_call::identity, broken_call::make_stream}) {
    nccl_workers with_broken_card{{{.broken = broken}}};
    expect_host(with_broken_card);
  }
  {
    nccl_workers by_ring;
    by_ring.options.communication.implementation = implementations::ring;
    expect_host(by_ring);
  }
}

TEST(NcclWorkers, AutomaticUsesNcclIfAllWorkersCan) {
  nccl_workers workers;
  workers.options.communication.collectives = backends::automatic;
  expect_nothing_thrown(
    run_on_cluster(2, workers.options, [](const strategy& on, std::uint32_t) {
      EXPECT_TRUE(uses_nccl(on)) << on.transport();
      EXPECT_EQ(weights_after_fit(on), weights_after_fit(turns(2)));
    }));
}

} // namespace
