#include "losses.hpp"
#include "troupe/tests/support/timeouts.hpp"
#include "troupe/training/strategies/training_loop.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <stdexcept>
#include <utility>

// A process that has joined a job, and then becomes its chief.

namespace {

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

using troupe::test::patience;
constexpr std::uint64_t last_steps = 50; // of the last fit

/// Where worker 1 joins.
enum class join_place { in_loop, after_loop, in_last_fit };

void PrintTo(join_place x, std::ostream* out) {
  using enum join_place;
  *out << (x == in_loop      ? "in the loop"
           : x == after_loop ? "after the loop"
                             : "in the last fit");
}

/// Lets a survivor wait until worker 1 has asked to join.
void wait_for_join(const strategy& on) {
  auto& peers = peers_of(on);
  std::unique_lock hold{peers.lock};
  const auto has_asked = [&] {
    return peers.stop.requested || !peers.deferral.waiting.empty()
           || (peers.view.view_id > 1 && peers.view.members.size() == workers);
  };
  EXPECT_TRUE(peers.wait(hold, peer_table::clock::now() + patience, has_asked))
    << "no process asked to join";
}

/// A loop in which two iterations fit a model, an evaluation, and the fit of
/// another model.
/// @param in_loop called in each iteration, with its number.
void run_program(const strategy& on, const callback& of_last_fit,
                 const std::function<void(std::uint64_t)>& in_loop,
                 const std::function<void()>& after_loop) {
  const auto scope = on.scope();
  auto it = small_model(), other = small_model();
  for (auto& step : on.loop("fits", on.distribute(uneven_batches()))) {
    in_loop(step.number);
    if (step.number == 1 || step.number == 3)
      it.fit(uneven_batches(), {.epochs = 1});
  }
  after_loop();
  it.evaluate(uneven_batches());
  fit_options how{.epochs = 1};
  how.callbacks.push_back(of_last_fit);
  other.fit(digits_200().batch(4), how);
}

class JoinedChief : public ::testing::TestWithParam<join_place> {};

/// Worker 1 misses two fits. It joins, and in the last fit the chief is lost in
/// a call for a step, after those of the others.
TEST_P(JoinedChief, RepeatsTheCallsThatTheChiefBeforeHasNotCompleted) {
  const auto joins = GetParam();
  constexpr std::uint64_t joins_in = 2, lost_in = 40;
  std::promise<void> may_join;
  auto is_reached = may_join.get_future();
  std::vector<step_list> as_chief(workers);
  call_counter of_others;
  int lives = 0; // of worker 1
  const auto run = [&](const strategy& on, std::uint32_t w) {
    const bool is_lost = w == 1 && lives++ == 0;
    bool is_cut = false, is_counted = false;
    const auto let_join = [&] {
      if (w == 1)
        return;
      if (w == 0)
        may_join.set_value();
      wait_for_join(on);
    };
    const auto on_step = [&](const step_record& x) {
      if (joins == join_place::in_last_fit && x.step == joins_in && !x.repeated)
        let_join();
      if (x.step == lost_in && w != 0 && !std::exchange(is_counted, true))
        of_others.count();
      if (x.step == lost_in && w == 0) {
        of_others.wait_for(2);
        cut_off(on);
        is_cut = true; // it does not complete this call, and none after it
      }
      if (!is_cut && on.is_chief())
        as_chief[w].push_back(x.step);
    };
    const auto in_loop = [&](std::uint64_t number) {
      if (is_lost && number == 5) {
        cut_off(on);
        throw std::runtime_error("worker 1 is lost");
      }
      if (joins == join_place::in_loop && number == 8)
        let_join();
    };
    const auto after_loop = [&] {
      if (joins == join_place::after_loop)
        let_join();
    };
    try {
      run_program(on, {.on_step = on_step}, in_loop, after_loop);
    } catch (const std::exception&) {
      if (!is_lost)
        throw;
      EXPECT_EQ(is_reached.wait_for(patience), std::future_status::ready);
      throw start_again{};
    }
  };
  const auto thrown = run_on_cluster(workers, {}, run);
  EXPECT_NE(exception_text(thrown[0]), "");
  EXPECT_EQ(exception_text(thrown[1]), "");
  EXPECT_EQ(exception_text(thrown[2]), "");
  EXPECT_EQ(lives, 2);
  EXPECT_EQ(as_chief[0], steps_to(lost_in));
  ASSERT_FALSE(as_chief[1].empty());
  EXPECT_LE(as_chief[1].front(), lost_in);
  auto expected = steps_to(last_steps);
  std::erase_if(expected, [first = as_chief[1].front()](std::uint64_t step) {
    return step < first;
  });
  EXPECT_EQ(as_chief[1], expected);
  EXPECT_TRUE(as_chief[2].empty());
}

INSTANTIATE_TEST_SUITE_P(All, JoinedChief,
                         ::testing::Values(join_place::in_loop,
                                           join_place::after_loop,
                                           join_place::in_last_fit));

} // namespace
