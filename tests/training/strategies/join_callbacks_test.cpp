#include "losses.hpp"
#include "troupe/tests/support/timeouts.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <future>
#include <mutex>
#include <utility>
#include <vector>

// A worker that joins while the others repeat the callbacks of an epoch.

namespace {

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

using troupe::test::patience;
constexpr std::uint32_t lost = 0;

/// A call of `on_epoch_end`, with the loss that its evaluation gives.
struct epoch_call {
  std::uint64_t epoch = 0;
  bool repeated = false;
  double loss = 0;
  friend bool operator==(const epoch_call&, const epoch_call&) = default;
};

/// Two epochs with an evaluation in each callback.
/// @param at called before and after the evaluation.
template <class F>
std::string train(const strategy& on, std::vector<epoch_call>& calls,
                  const F& at) {
  const auto scope = on.scope();
  auto it = small_model();
  fit_options how{.epochs = 2};
  how.callbacks.push_back({.on_epoch_end = [&](const epoch_record& x) {
    at(x, true);
    calls.push_back({x.epoch, x.repeated, it.evaluate(uneven_batches()).loss});
    at(x, false);
  }});
  it.fit(uneven_batches(), how);
  return it.weights_sha256();
}

/// The chief is lost when its callback of the first epoch has evaluated, so the
/// others repeat theirs. In them they wait until the lost one asks to join. It
/// makes all calls of callbacks that the others have made, also the repeated
/// ones.
TEST(JoinCallbacks, AreThoseOfTheOthersWhileTheseRepeatThem) {
  std::once_flag once;
  std::promise<void> may_join;
  auto is_reached = may_join.get_future();
  std::atomic<int> waiting = 0;
  std::vector<std::vector<epoch_call>> calls(workers);
  std::vector<std::string> weights(workers);
  int lives = 0; // of the lost worker
  const auto thrown =
    run_on_cluster(workers, {}, [&](const strategy& on, std::uint32_t w) {
      const bool is_lost = w == lost && lives++ == 0;
      const auto at = [&](const epoch_record& x, bool before) {
        if (is_lost && !before)
          cut_off(on);
        if (w == lost || !x.repeated || x.epoch > 1 || !before)
          return;
        ++waiting;
        std::call_once(once, [&] { may_join.set_value(); });
        auto& peers = peers_of(on);
        std::unique_lock hold{peers.lock};
        EXPECT_TRUE(peers.wait(hold, peer_table::clock::now() + patience,
                               [&] {
                                 return peers.stop.requested
                                        || peers.view.members.size() == workers;
                               }))
          << "no process asked to join";
      };
      try {
        weights[w] = train(on, calls[w], at);
      } catch (const job_error&) {
        if (!is_lost)
          throw;
        calls[w].clear();
        EXPECT_EQ(is_reached.wait_for(patience), std::future_status::ready);
        throw start_again{};
      }
    });
  std::vector<epoch_call> undisturbed;
  const auto expected_weights =
    train(turns(workers), undisturbed, [](const epoch_record&, bool) {});
  ASSERT_EQ(undisturbed.size(), 2u);
  auto repeated = undisturbed[0];
  repeated.repeated = true;
  const std::vector<epoch_call> expected{undisturbed[0], repeated,
                                         undisturbed[1]};
  EXPECT_EQ(lives, 2);
  EXPECT_EQ(waiting, 2);
  for (std::uint32_t w = 0; w < workers; ++w) {
    SCOPED_TRACE("worker " + std::to_string(w));
    EXPECT_EQ(exception_text(thrown[w]), "");
    EXPECT_EQ(calls[w], expected);
    EXPECT_EQ(weights[w], expected_weights);
  }
}

} // namespace
