#include "state_ends.hpp"
#include "troupe/tests/support/becomes_true.hpp"
#include "troupe/tests/support/timeouts.hpp"
#include "troupe/training/strategies/state_transfer/state_follower.hpp"
#include "troupe/training/strategies/state_transfer/state_source.hpp"

#include <gtest/gtest.h>

#include <random>

// A process that copies the state of a model from another one, and follows its
// updates.

namespace {

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;
using result = state_follower::result;

using troupe::test::patience;
constexpr std::size_t elements = 5'000'000; // more than one part

tensor filled(float first) {
  tensor out{{std::int64_t{elements}}};
  auto data = out.mutable_data<float>();
  for (std::size_t i = 0; i < elements; ++i)
    data[i] = first + static_cast<float>(i % 1000);
  return out;
}

/// A state with one slot. An update adds the sum to the parameters and counts
/// in the slot, so each missing or repeated one is seen.
struct small_state {
  std::vector<tensor> tensors{filled(0), filled(1)};

  void update(std::uint64_t first, std::span<const float> sums) {
    auto values = tensors[0].mutable_data<float>().subspan(first, sums.size());
    auto slots = tensors[1].mutable_data<float>().subspan(first, sums.size());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      values[i] += sums[i];
      slots[i] += 1;
    }
  }
  state_follower::target target() {
    return {tensors,
            [this](const state_item&, std::uint64_t first,
                   std::span<const float> sums) { update(first, sums); }};
  }
  void clear() {
    for (auto& x : tensors)
      std::ranges::fill(x.mutable_data<float>(), -1.0f);
  }
};

bool same(const small_state& a, const small_state& b) {
  return same_bits(a.tensors[0], b.tensors[0])
         && same_bits(a.tensors[1], b.tensors[1]);
}

/// A source whose replica is the test.
struct training_source {
  explicit training_source(std::unique_ptr<local_state_lanes> made =
                             std::make_unique<local_state_lanes>())
    : lanes{*made}, source{std::move(made)} {
    source.begin(7, elements, 2);
  }

  void step(bool is_skipped = false) {
    const auto sum = filled(static_cast<float>(++steps));
    if (!is_skipped)
      state.update(0, sum.data<float>());
    const state_source::gradient_part parts[]{{1000, sum.range(1000, elements)},
                                              {0, sum.range(0, 1000)}};
    source.on_update({.steps = steps,
                      .is_skipped = is_skipped,
                      .examples = 16,
                      .learning_rate = 0.5f,
                      .state = state.tensors,
                      .sums = parts});
  }
  /// Waits until the memory for a process is there.
  void wait_for_follower() {
    ASSERT_TRUE(becomes_true([&] { return source.is_followed(); }));
  }

  local_state_lanes& lanes;
  state_source source;
  small_state state;
  std::uint64_t steps = 100;
};

TEST(StateTransfer, CopiesTheStateAndFollowsTheUpdates) {
  training_source at;
  small_state copy;
  copy.clear();
  state_follower follower{at.lanes.open(0, patience), copy.target()};
  at.wait_for_follower();
  at.step();
  EXPECT_EQ(follower.follow(patience), result::caught_up);
  EXPECT_EQ(follower.follow_to(101, patience), result::caught_up);
  ASSERT_TRUE(follower.current());
  EXPECT_EQ(follower.current()->call, 7u);
  EXPECT_EQ(follower.current()->steps, 101u);
  EXPECT_TRUE(same(copy, at.state));
  at.step();
  at.step(true);
  EXPECT_EQ(follower.follow_to(103, patience), result::caught_up);
  EXPECT_EQ(follower.current()->steps, 103u);
  EXPECT_TRUE(same(copy, at.state));
  for (int i = 0; i < 5; ++i) { // the memory of the gradients is used again
    at.step();
    EXPECT_EQ(follower.follow_to(at.steps, patience), result::caught_up);
  }
  EXPECT_TRUE(same(copy, at.state));
}

TEST(StateTransfer, UpdatesWhileTheStateIsSentAreMadeAfterIt) {
  training_source at;
  small_state copy;
  state_follower follower{at.lanes.open(0, patience), copy.target()};
  at.wait_for_follower();
  at.step(); // the follower does not receive yet
  at.step();
  at.step();
  EXPECT_EQ(follower.follow_to(103, patience), result::caught_up);
  EXPECT_EQ(follower.current()->steps, 103u);
  EXPECT_TRUE(same(copy, at.state));
}

TEST(StateTransfer, AProcessThatDoesNotKeepUpIsDropped) {
  training_source at;
  small_state copy;
  state_follower follower{at.lanes.open(0, patience), copy.target()};
  at.wait_for_follower();
  for (int i = 0; i < 100 && at.source.is_followed(); ++i)
    at.step();
  EXPECT_FALSE(at.source.is_followed());
  EXPECT_EQ(follower.follow_to(at.steps, patience), result::ended);
  EXPECT_EQ(follower.reason(), "this process does not keep up with the steps");
}

TEST(StateTransfer, AllocatesMemoryForMoreGradientsWhenTheyWait) {
  training_source at;
  small_state copy;
  state_follower follower{at.lanes.open(0, patience), copy.target()};
  at.wait_for_follower();
  const auto before = memory::used().live;
  at.step(); // the follower does not receive yet
  const std::size_t more = state_source::max_waiting + 1;
  for (std::size_t i = 1; i <= more; ++i) {
    at.step();
    EXPECT_TRUE(becomes_true([&] {
      return memory::used().live >= before + i * elements * sizeof(float);
    }));
  }
  EXPECT_TRUE(at.source.is_followed());
  EXPECT_EQ(follower.follow_to(at.steps, patience), result::caught_up);
  EXPECT_TRUE(same(copy, at.state));
}

TEST(StateTransfer, EndsWithTheCall) {
  training_source at;
  small_state copy;
  state_follower follower{at.lanes.open(0, patience), copy.target()};
  at.wait_for_follower();
  at.step();
  at.source.end();
  EXPECT_EQ(follower.follow_to(at.steps + 1, patience), result::ended);
  EXPECT_EQ(follower.reason(), "the call has ended");
  EXPECT_EQ(follower.current()->steps, at.steps);
  EXPECT_TRUE(same(copy, at.state));
}

TEST(StateTransfer, ASourceThatHasCopiedAStepItselfGivesUp) {
  training_source at;
  small_state copy;
  state_follower follower{at.lanes.open(0, patience), copy.target()};
  at.wait_for_follower();
  at.step();
  ++at.steps;
  at.step();
  EXPECT_EQ(follower.follow_to(at.steps, patience), result::ended);
  EXPECT_EQ(follower.reason(), "the source has copied a step itself");
}

TEST(StateTransfer, DoesNotWaitForAStepThatTheSourceHasNotMade) {
  training_source at;
  small_state copy;
  state_follower follower{at.lanes.open(0, patience), copy.target()};
  at.wait_for_follower();
  at.step();
  at.source.pause();
  EXPECT_EQ(follower.follow_to(at.steps + 1, patience), result::caught_up);
  EXPECT_EQ(follower.current()->steps, at.steps);
  EXPECT_TRUE(same(copy, at.state));
}

TEST(StateTransfer, WithoutStepsNothingArrives) {
  training_source at;
  small_state copy;
  state_follower follower{at.lanes.open(0, patience), copy.target()};
  EXPECT_EQ(follower.follow(50ms), result::silent);
  EXPECT_FALSE(follower.current());
}

TEST(StateTransfer, ASourceThatIsLostFailsIt) {
  auto at = std::make_unique<training_source>();
  small_state copy;
  state_follower follower{at->lanes.open(0, patience), copy.target()};
  at->wait_for_follower();
  at->step();
  at.reset();
  EXPECT_EQ(follower.follow_to(200, patience), result::failed);
  EXPECT_FALSE(follower.current());
  EXPECT_NE(follower.reason().find("the lane has ended"), std::string::npos)
    << follower.reason();
}

/// The follower does not receive, so a part is on its way all the time.
TEST(StateTransfer, ASourceEndsInTheMiddleOfAPart) {
  auto at = std::make_unique<training_source>();
  small_state copy;
  state_follower follower{at->lanes.open(0, patience), copy.target()};
  at->wait_for_follower();
  at->step();
  at->step();
  const auto begin = std::chrono::steady_clock::now();
  at.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, patience);
  EXPECT_EQ(follower.follow(patience), result::failed);
}

TEST(StateTransfer, ServesTwoProcessesAndEndsTheLaneOfAThird) {
  training_source at;
  small_state one, two, three;
  state_follower first{at.lanes.open(0, patience), one.target()};
  at.wait_for_follower();
  state_follower second{at.lanes.open(0, patience), two.target()};
  state_follower third{at.lanes.open(0, patience), three.target()};
  EXPECT_EQ(third.follow(patience), result::failed);
  at.step();
  EXPECT_EQ(first.follow(patience), result::caught_up);
  // The memory for the second one may be there only after that step.
  result found = result::silent;
  for (int i = 0; i < 100 && found == result::silent; ++i) {
    at.step();
    EXPECT_EQ(first.follow_to(at.steps, patience), result::caught_up);
    found = second.follow(20ms);
  }
  EXPECT_EQ(found, result::caught_up);
  EXPECT_EQ(second.follow_to(at.steps, patience), result::caught_up);
  EXPECT_TRUE(same(one, at.state));
  EXPECT_TRUE(same(two, at.state));
}

// -- items that are wrong -----------------------------------------------------

/// Sends items as a source that is not to be trusted.
struct raw_source {
  raw_source() {
    auto [source, other] = state_lane_ends();
    lane = std::move(source);
    follower.emplace(std::move(other), copy.target());
  }
  void send(const state_item& x) { send(to_transfer(x)); }
  void send(tensors x) {
    lane->sender().send(1, 0, std::move(x));
    lane->progress();
  }
  /// Both ends run on this thread, so the lane is driven in turns.
  result follow() {
    return repeat([&] { return follower->follow(1ms); });
  }
  result follow_to(std::uint64_t steps) {
    return repeat([&] { return follower->follow_to(steps, 1ms); });
  }
  template <class F>
  result repeat(F&& receive) {
    auto found = result::silent;
    for (int i = 0; i < 2000 && found == result::silent; ++i) {
      lane->progress();
      found = receive();
    }
    return found;
  }

  std::unique_ptr<transfer_lane> lane;
  small_state copy;
  std::optional<state_follower> follower;
};

state_item values_of(const tensor& whole, std::uint32_t index,
                     std::size_t first, std::size_t end) {
  state_item x;
  x.what = state_item::kind::values;
  x.call = 7;
  x.steps = 101;
  x.tensor = index;
  x.tensors = 2;
  x.first = first;
  x.total = whole.size();
  x.part = whole.range(first, end);
  return x;
}

state_item sums_of(const tensor& whole, std::size_t first, std::size_t end) {
  auto x = values_of(whole, 0, first, end);
  x.what = state_item::kind::sums;
  x.steps = 102;
  x.examples = 16;
  x.learning_rate = 0.5;
  return x;
}

TEST(StateTransferFaults, AFlippedBitIsFound) {
  raw_source at;
  auto damaged = to_transfer(values_of(filled(3), 0, 0, 1000));
  damaged[1] = damaged[1].clone();
  damaged[1].raw()[1234] ^= std::byte{4};
  at.send(damaged);
  EXPECT_EQ(at.follow(), result::failed);
  EXPECT_EQ(at.follower->reason(),
            "a part of the state was damaged on its way");
}

TEST(StateTransferFaults, APartThatIsMissingIsFound) {
  raw_source at;
  at.send(values_of(filled(3), 0, 0, 1000));
  at.send(values_of(filled(3), 0, 2000, 3000));
  EXPECT_EQ(at.follow(), result::failed);
  EXPECT_EQ(at.follower->reason(), "the source has a state of another form");
}

TEST(StateTransferFaults, AStateOfAnotherSizeIsFound) {
  raw_source at;
  at.send(values_of(filled(3).range(0, 4000), 0, 0, 1000));
  EXPECT_EQ(at.follow(), result::failed);
}

TEST(StateTransferFaults, AnUpdateBeforeTheStateIsFound) {
  raw_source at;
  auto x = values_of(filled(3), 0, 0, 1000);
  x.what = state_item::kind::sums;
  x.examples = 16;
  at.send(x);
  EXPECT_EQ(at.follow(), result::failed);
  EXPECT_EQ(at.follower->reason(),
            "the source has sent a part of another step than the next");
}

/// Sends a small state to another follower.
/// @param waiting steps that wait at the source then.
void send_small_state(raw_source& at, std::uint64_t waiting = 0,
                      const follow_intervals& how_long = {}) {
  at.copy.tensors = {tensor::full({8}, 1), tensor::full({8}, 2)};
  auto [source, other] = state_lane_ends();
  at.lane = std::move(source);
  at.follower.emplace(std::move(other), at.copy.target(), how_long);
  for (const std::uint32_t i : {0, 1}) {
    auto x = values_of(tensor::full({8}, 3 + float(i)), i, 0, 8);
    x.waiting = waiting;
    at.send(x);
  }
}

/// Sends a small state, and the first half of the sums of the next step.
void send_half_a_step(raw_source& at) {
  send_small_state(at);
  EXPECT_EQ(at.follow(), result::caught_up);
  at.send(sums_of(tensor::full({8}, 5), 0, 4));
}

TEST(StateTransferFaults, AStepThatIsMadeInPartIsNotSkipped) {
  raw_source at;
  send_half_a_step(at);
  state_item skipped;
  skipped.what = state_item::kind::skipped;
  skipped.call = 7;
  skipped.steps = 102;
  at.send(skipped);
  EXPECT_EQ(at.follow_to(102), result::failed);
  EXPECT_FALSE(at.follower->current());
}

TEST(StateTransferFaults, PartsOfAStepHaveOneLearningRate) {
  raw_source at;
  send_half_a_step(at);
  auto rest = sums_of(tensor::full({8}, 5), 4, 8);
  rest.learning_rate = 0.25;
  at.send(rest);
  EXPECT_EQ(at.follow_to(102), result::failed);
  EXPECT_EQ(at.follower->reason(), "the source has a gradient of another form");
}

// -- processes that hardly catch up -------------------------------------------

/// Follows a source at which the same number of steps waits behind each item.
/// @returns the number of steps that were followed, and the result. `silent`:
///          none within `max_steps`.
std::pair<std::uint64_t, result>
follow_with_waiting(std::uint64_t waiting, const follow_intervals& how_long,
                    std::uint64_t max_steps = 40) {
  raw_source at;
  send_small_state(at, waiting, how_long);
  // The position shows when an item has arrived.
  const auto follow_to = [&](std::uint64_t steps) {
    auto found = result::silent;
    for (int i = 0;
         i < 2000 && found == result::silent
         && !(at.follower->current() && at.follower->current()->steps == steps);
         ++i) {
      at.lane->progress();
      found = at.follower->follow(1ms);
    }
    return found;
  };
  auto found = follow_to(101);
  std::uint64_t steps = 0;
  while (found == result::silent && steps < max_steps) {
    auto x = sums_of(tensor::full({8}, 5), 0, 8);
    x.steps = 101 + ++steps;
    x.waiting = waiting;
    at.send(x);
    found = follow_to(x.steps);
  }
  EXPECT_EQ(at.follower->current()->steps, 101 + steps);
  return {steps, found};
}

using followed = std::pair<std::uint64_t, result>;

/// More than 3 steps of a small state can wait at the source.
TEST(StateTransferLag, ThreeStepsMayWaitAfterAWhile) {
  const follow_intervals at_once{.min = -1ms}, never{.min = 1h};
  EXPECT_EQ(follow_with_waiting(3, at_once), (followed{0, result::caught_up}));
  EXPECT_EQ(follow_with_waiting(4, at_once), (followed{40, result::silent}));
  EXPECT_EQ(follow_with_waiting(3, never), (followed{40, result::silent}));
}

/// Otherwise a process as fast as the members would follow them for ever.
TEST(StateTransferLag, AProcessThatStaysBehindGivesUp) {
  const follow_intervals at_once{.min = 1h, .max = -1ms, .min_steps = 6};
  EXPECT_EQ(follow_with_waiting(4, at_once), (followed{18, result::behind}));
  EXPECT_EQ(follow_with_waiting(3, at_once), (followed{40, result::silent}));
  EXPECT_EQ(follow_with_waiting(4, {.min = 1h, .max = 1h}),
            (followed{40, result::silent}));
}

// -- transfers of any form ----------------------------------------------------

TEST(StateTransferFaults, AnyTransferIsReadOrRefused) {
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 dice{seed};
  const auto good = to_transfer(values_of(filled(3), 0, 0, 1000));
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    tensors x{good[0].clone(), good[1]};
    if (dice() % 8 == 0)
      x.pop_back();
    else if (dice() % 8 == 0)
      x.push_back(good[1]);
    for (auto n = 1 + dice() % 8; n > 0; --n)
      x[0].raw()[dice() % x[0].bytes()] = std::byte(dice());
    if (dice() % 4 == 0)
      x[0] = x[0].range(0, 1 + dice() % x[0].size());
    const auto read = read_item(x);
    refused += std::holds_alternative<std::string>(read);
    if (const auto* item = std::get_if<state_item>(&read); item && item->part) {
      EXPECT_LE(item->first + item->part.size(), item->total);
    }
  }
  EXPECT_GT(refused, 1000);
}

} // namespace
