#include "state_ends.hpp"
#include "troupe/actors/flight/flight_recorder.hpp"
#include "troupe/models/zoo.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tests/support/becomes_true.hpp"
#include "troupe/tests/support/timeouts.hpp"
#include "troupe/tests/tensors/simulated_device.hpp"
#include "troupe/tests/training/strategies/losses.hpp"
#include "troupe/training/strategies/state_transfer/state_item.hpp"
#include "troupe/training/strategies/state_transfer/state_source.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <limits>

// Workers that copy the state of the job before they join it.

namespace {

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

using troupe::test::patience;
constexpr std::uint32_t four_workers = 4;
constexpr std::uint64_t lost_after = 3, gate_step = 40, last_gate = 190;

/// What is trained.
enum class training {
  small,
  /// The parameters have several buckets, and the inputs are so small that
  /// denormal numbers occur in slots, unless they are flushed.
  wide,
  /// A layer is frozen, the learning rate has a schedule, and some steps are
  /// skipped because their loss is not finite.
  irregular,
};

model make_model(training what) {
  if (what == training::wide)
    return {models::mlp(), adam{}, {.seed = 5}};
  return small_model();
}

/// 200 batches: more than the replicas make while the callbacks wait at a gate.
data::dataset batches_of(training what) {
  const auto all = digits_200().shuffle().batch(4).repeat(4);
  if (what == training::small)
    return all;
  return all.map([what](const batch& x) {
    const bool is_bad =
      what == training::irregular && x.labels.data<std::int32_t>()[0] == 7;
    auto out = x;
    out.inputs = x.inputs
                 * (what == training::wide ? 3e-36
                    : is_bad ? std::numeric_limits<double>::infinity()
                             : 1);
    return out;
  });
}

fit_options options_of(training what) {
  fit_options out{.epochs = 1};
  if (what == training::irregular) {
    out.on_nan = on_nan::skip;
    out.schedule = cosine_schedule{.learning_rate = 0.01f, .steps = 200};
    out.trainable = [](const variable& x) {
      return x.name().find("dense_1") == std::string::npos;
    };
  }
  return out;
}

/// Lets the lost worker start again when the survivors have come to a step.
/// They wait there until the worker is about to copy the state of one of them.
/// Near the end of the epoch they wait until it has asked to join.
class two_gates {
public:
  void wait_at(const strategy& on, std::uint64_t step) {
    if (step == gate_step) {
      {
        const std::lock_guard hold{lock_};
        sources_.push_back(on.state()->source);
      }
      std::call_once(once_, [this] { may_join_.set_value(); });
      EXPECT_TRUE(becomes_true(
        [&] { return is_followed_ || any_followed() || is_asked(on); }));
      is_followed_ = true;
    } else if (step == last_gate) {
      auto& peers = peers_of(on);
      std::unique_lock hold{peers.lock};
      EXPECT_TRUE(peers.wait(hold, peer_table::clock::now() + patience,
                             [&] {
                               return peers.stop.requested
                                      || peers.view.members.size()
                                           == four_workers;
                             }))
        << "no process asked to join";
    }
  }
  void wait_for_survivors() {
    EXPECT_EQ(reached_.wait_for(patience), std::future_status::ready);
  }

private:
  static bool is_asked(const strategy& on) {
    auto& peers = peers_of(on);
    return peers.get([&] { return peers.stop.requested; });
  }
  bool any_followed() {
    const std::lock_guard hold{lock_};
    return std::ranges::any_of(sources_, [](const auto& x) {
      const auto source = x.lock();
      return source && source->is_followed();
    });
  }

  std::once_flag once_;
  std::promise<void> may_join_;
  std::future<void> reached_ = may_join_.get_future();
  std::mutex lock_;
  std::vector<std::weak_ptr<state_source>> sources_;
  std::atomic<bool> is_followed_ = false;
};

struct join_outcome {
  std::vector<std::string> weights{four_workers};
  std::vector<flight_event> events; ///< Of the worker that has joined.
};

/// Trains one epoch. One worker is lost, and joins again.
/// @param joined called by the worker that joins, before its fit.
join_outcome train_with_join(training what, std::uint32_t lost,
                             const std::function<void(const strategy&)>& joined,
                             const std::string& device = "cpu:0") {
  two_gates all;
  join_outcome out;
  int lives = 0; // of the lost worker
  multi_worker_options options;
  options.copy_ahead_bytes = 1;
  options.devices = {device};
  const auto thrown = run_on_cluster(
    four_workers, options, [&](const strategy& on, std::uint32_t w) {
      const bool is_first = w == lost && lives++ == 0;
      const auto scope = on.scope();
      auto it = make_model(what);
      auto how = options_of(what);
      how.callbacks.push_back({.on_step = [&](const step_record& x) {
        if (x.repeated)
          return;
        if (is_first && x.step == lost_after)
          cut_off(on);
        if (w != lost && on.state()->views > 0)
          all.wait_at(on, x.step);
      }});
      if (w == lost && !is_first)
        joined(on);
      try {
        it.fit(batches_of(what), how);
        out.weights[w] = it.weights_sha256();
        if (w == lost)
          out.events = on.state()->recorder->events();
      } catch (const job_error&) {
        if (!is_first)
          throw;
        all.wait_for_survivors();
        throw start_again{options};
      }
    });
  expect_nothing_thrown(thrown);
  EXPECT_EQ(lives, 2);
  return out;
}

std::string weights_without_loss(training what) {
  const auto on = turns(four_workers);
  const auto scope = on.scope();
  auto it = make_model(what);
  it.fit(batches_of(what), options_of(what));
  return it.weights_sha256();
}

std::ptrdiff_t count(const std::vector<flight_event>& events,
                     flight_event_kind kind) {
  return std::ranges::count(events, kind, &flight_event::kind);
}

using enum flight_event_kind;

/// Members may stop at different steps; then one of them copies the state, and
/// all others with it. Such a run says nothing about the copy of the process
/// that joins. The chance of that is about one in five.
constexpr int max_runs = 8;

struct CopyAhead
  : ::testing::TestWithParam<std::pair<std::uint32_t, training>> {};

TEST_P(CopyAhead, GivesTheUndisturbedWeightsWithoutACopyAfterTheJoin) {
  const auto& [lost, what] = GetParam();
  const auto expected = weights_without_loss(what);
  std::ptrdiff_t copies = 1;
  for (int i = 0; i < max_runs && copies > 0; ++i) {
    const auto found = train_with_join(what, lost, [](const strategy&) {});
    for (const auto& x : found.weights)
      EXPECT_EQ(x, expected);
    EXPECT_EQ(count(found.events, state_copied_ahead), 1);
    copies = count(found.events, state_copied);
  }
  EXPECT_EQ(copies, 0);
}

INSTANTIATE_TEST_SUITE_P(All, CopyAhead,
                         ::testing::Values(std::pair{3u, training::small},
                                           std::pair{0u, training::small},
                                           std::pair{1u, training::wide},
                                           std::pair{2u, training::irregular}));

TEST(CopyAheadCases, OnADevice) {
  const simulated_devices devices;
  const auto found = train_with_join(
    training::small, 2, [](const strategy&) {}, "cuda:0");
  for (const auto& x : found.weights)
    EXPECT_EQ(x, weights_without_loss(training::small));
  EXPECT_EQ(count(found.events, state_copied_ahead), 1);
}

/// Sends an item, and waits until it has arrived or the lane has ended.
void send(transfer_lane& lane, const state_item& x) {
  lane.sender().send(1, 0, to_transfer(x));
  for (bool done = false; !done && !lane.failure();) {
    for (const auto& event : lane.progress())
      done |= std::holds_alternative<tensor_transfer::delivered>(event);
    lane.wait(10ms);
  }
}

/// Acts as a source of a state with this number of elements in each tensor.
using source_function = void (*)(transfer_lane&, std::uint64_t elements);

/// A source that is lost in the middle of its state.
void lose_source(transfer_lane& lane, std::uint64_t elements) {
  state_item x;
  x.tensors = 3;
  x.total = elements;
  x.part = tensor::full({std::int64_t(x.total / 2)}, 77);
  send(lane, x);
}

/// Time after which such a source is lost if it is still followed.
constexpr auto max_ahead = 20s;

/// A source at which ten steps wait behind each one that it sends.
void stay_ahead(transfer_lane& lane, std::uint64_t elements) {
  state_item x;
  x.tensors = 3;
  x.total = elements;
  x.part = tensor::full({std::int64_t(x.total)}, 77);
  x.waiting = 10;
  for (x.tensor = 0; x.tensor < x.tensors; ++x.tensor)
    send(lane, x);
  x.what = state_item::kind::sums;
  x.tensor = 0;
  x.tensors = 1;
  x.examples = 16;
  x.learning_rate = 0.5;
  const auto end = std::chrono::steady_clock::now() + max_ahead;
  while (!lane.failure() && std::chrono::steady_clock::now() < end) {
    ++x.steps;
    send(lane, x);
  }
}

/// Replaces the lanes of a process that joins. Its first sources are false.
class false_sources final : public state_lanes {
public:
  /// @param act      of a false source.
  /// @param elements of each tensor of the state.
  /// @param count    number of the false sources.
  /// @param tasks    gets the tasks that are asked.
  false_sources(state_source& inner, source_function act,
                std::uint64_t elements, int count,
                std::vector<std::uint32_t>& tasks)
    : inner_{inner.lanes()},
      act_{act},
      elements_{elements},
      count_{count},
      tasks_{tasks} {}

  void serve(std::function<void(opener)>) override {}
  std::vector<std::uint32_t> sources() const override {
    return inner_.sources();
  }
  std::unique_ptr<transfer_lane>
  open(std::uint32_t task, std::chrono::milliseconds timeout) override {
    tasks_.push_back(task);
    if (count_-- <= 0)
      return inner_.open(task, timeout);
    auto [source, follower] = state_lane_ends();
    running_.push_back(std::async(
      std::launch::async, [this, lane = std::move(source)]() mutable {
        const auto own = std::move(lane); // ends with this function
        act_(*own, elements_);
      }));
    return std::move(follower);
  }
  std::string name(std::uint32_t task) const override {
    return inner_.name(task);
  }

private:
  state_lanes& inner_;
  const source_function act_;
  const std::uint64_t elements_;
  int count_;
  std::vector<std::uint32_t>& tasks_;
  std::vector<std::future<void>> running_;
};

/// Trains with a join of worker 3, whose first sources are false.
/// @param tasks gets the tasks that it asks.
join_outcome train_with_false_sources(source_function act, int count,
                                      std::vector<std::uint32_t>& tasks) {
  std::shared_ptr<state_source> real;
  return train_with_join(training::small, 3, [&](const strategy& on) {
    const auto model = on.state()->observers.front().lock();
    const auto state = model->state_tensors(model->state_text());
    real = on.state()->source;
    on.state()->source =
      std::make_shared<state_source>(std::make_unique<false_sources>(
        *real, act, state.front().size(), count, tasks));
  });
}

TEST(CopyAheadFaults, TwoSourcesThatAreLostAreReplacedByAThird) {
  std::vector<std::uint32_t> tasks;
  const auto found = train_with_false_sources(lose_source, 2, tasks);
  const auto expected = weights_without_loss(training::small);
  for (const auto& x : found.weights)
    EXPECT_EQ(x, expected);
  EXPECT_EQ(tasks, (std::vector<std::uint32_t>{2, 1, 0}));
  EXPECT_EQ(count(found.events, state_copied_ahead), 1);
}

TEST(CopyAheadFaults, IfAllSourcesAreLostTheStateIsCopiedAfterTheJoin) {
  std::vector<std::uint32_t> tasks;
  const auto found = train_with_false_sources(lose_source, 100, tasks);
  const auto expected = weights_without_loss(training::small);
  for (const auto& x : found.weights)
    EXPECT_EQ(x, expected);
  EXPECT_EQ(tasks, (std::vector<std::uint32_t>{2, 1, 0}));
  EXPECT_EQ(count(found.events, state_copied_ahead), 0);
  EXPECT_EQ(count(found.events, state_copied), 1);
}

/// Another source would make its steps as fast.
TEST(CopyAheadFaults, AProcessThatStaysBehindCopiesTheStateAfterTheJoin) {
  std::vector<std::uint32_t> tasks;
  const auto found = train_with_false_sources(stay_ahead, 100, tasks);
  const auto expected = weights_without_loss(training::small);
  for (const auto& x : found.weights)
    EXPECT_EQ(x, expected);
  EXPECT_EQ(tasks, (std::vector<std::uint32_t>{2}));
  EXPECT_EQ(count(found.events, state_copied_ahead), 0);
  EXPECT_EQ(count(found.events, state_copied), 1);
}

} // namespace
