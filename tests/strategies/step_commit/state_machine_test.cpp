#include "troupe/strategies/step_commit/state_machine.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

using namespace troupe;
using namespace troupe::commit;

namespace {

constexpr std::uint64_t lease = 4;

/// A state machine whose effects are recorded, and replicas that answer.
struct desk {
  explicit desk(std::uint32_t replicas)
    : replicas{replicas}, book{replicas, lease} {
    keep(book.open());
    seat_all();
  }

  void keep(reaction&& what) {
    for (auto& x : what)
      said.push_back(std::move(x));
    const auto commits = all<committed>();
    if (hears && !commits.empty())
      for (auto& x : book.heard(commits.back().record.step + 1))
        said.push_back(std::move(x));
  }
  void seat_all() {
    for (std::uint32_t r = 0; r < replicas; ++r)
      keep(book.on(seated{book.epoch(), r, 1, 0}));
  }
  void report_step(std::uint32_t r, std::uint64_t step) {
    keep(book.on(report{book.epoch(), step, r, 1, {r + 1, double(step), 0}}));
  }

  /// @returns the recorded effects of one type.
  template <class T>
  std::vector<T> all() const {
    std::vector<T> out;
    for (const auto& x : said)
      if (auto* it = std::get_if<T>(&x))
        out.push_back(*it);
    return out;
  }
  template <class T>
  T last() const {
    const auto found = all<T>();
    EXPECT_FALSE(found.empty());
    return found.empty() ? T{} : found.back();
  }

  std::uint32_t replicas;
  ledger book;
  reaction said;
  bool hears = true; ///< The caller acknowledges each commit.
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST(StepCommit, GrantsTheWindowAndOneMoreStepPerCommit) {
  desk d{2};
  d.keep(d.book.run(10, 6));
  EXPECT_EQ(d.last<send_orders>().to_all.first, 10u);
  EXPECT_EQ(d.last<send_orders>().to_all.until, 14u);
  d.report_step(0, 10);
  EXPECT_TRUE(d.all<committed>().empty());
  d.report_step(1, 10);
  EXPECT_EQ(d.last<committed>().record.step, 10u);
  EXPECT_EQ(d.last<send_grants>().to_all.until, 15u);
  EXPECT_EQ(d.last<committed>().record.total.examples, 3u);
  EXPECT_EQ(d.last<committed>().record.contributors,
            (std::vector<std::uint32_t>{0, 1}));
}

TEST(StepCommit, CommitsInOrderForAnyOrderOfReports) {
  std::mt19937_64 rng{3};
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE("seed 3, round " + std::to_string(round));
    desk d{3};
    d.keep(d.book.run(0, 20));
    std::uint64_t next[3] = {};
    for (int left = 60; left > 0;) {
      const auto r = std::uint32_t(rng() % 3);
      const auto granted = d.all<send_grants>().empty()
                             ? lease
                             : d.last<send_grants>().to_all.until;
      if (next[r] == std::min<std::uint64_t>(granted, 20))
        continue;
      d.report_step(r, next[r]);
      if (rng() % 2)
        d.report_step(r, next[r]); // repeated
      ++next[r];
      --left;
    }
    const auto commits = d.all<committed>();
    ASSERT_EQ(commits.size(), 20u);
    for (std::uint64_t s = 0; s < 20; ++s)
      EXPECT_EQ(commits[s].record.step, s);
    EXPECT_EQ(d.last<ended>().next, 20u);
    EXPECT_FALSE(d.book.busy());
  }
}

TEST(StepCommit, StopGrantsNoMoreSteps) {
  desk d{2};
  d.keep(d.book.run(0, 100));
  d.keep(d.book.stop());
  for (std::uint64_t s = 0; s < lease; ++s) {
    EXPECT_TRUE(d.all<ended>().empty());
    d.report_step(0, s);
    d.report_step(1, s);
  }
  EXPECT_EQ(d.last<ended>().next, lease);
  EXPECT_TRUE(d.all<send_grants>().empty());
}

TEST(StepCommit, StartsStepsWhenAllReplicasAreConfigured) {
  ledger book{2, lease};
  book.open();
  EXPECT_TRUE(book.run(0, 1).empty());
  EXPECT_TRUE(book.on(seated{1, 0, 1, 0}).empty());
  EXPECT_TRUE(book.on(seated{1, 0, 1, 0}).empty()); // repeated
  EXPECT_EQ(book.on(seated{1, 1, 1, 0}).size(), 1u);
}

TEST(StepCommit, IgnoresReportsOfAnOlderGeneration) {
  desk d{1};
  d.keep(d.book.run(0, 2));
  d.keep(d.book.on(failed{1, 0, 0, 1, cause::invalid, "broken"}));
  EXPECT_EQ(d.book.epoch(), 2u);
  EXPECT_TRUE(d.book.on(report{1, 0, 0, 1, {}}).empty());
  d.seat_all();
  EXPECT_EQ(d.last<given_up>().why, "broken");
  d.keep(d.book.run(0, 1));
  EXPECT_TRUE(d.book.on(report{1, 0, 0, 1, {}}).empty());
  d.report_step(0, 0);
  EXPECT_EQ(d.last<committed>().record.epoch, 2u);
}

TEST(StepCommit, ReportsTheReasonWhenAllReplicasLeftTheStep) {
  desk d{3};
  d.keep(d.book.run(0, 9));
  d.keep(d.book.on(failed{1, 0, 2, 1, cause::invalid, "broken"}));
  EXPECT_EQ(d.last<send_seats>().to_all.epoch, 2u);
  d.keep(d.book.on(seated{2, 0, 1, 0}));
  d.keep(d.book.on(seated{2, 2, 1, 0}));
  EXPECT_TRUE(d.all<given_up>().empty());
  d.keep(d.book.on(seated{2, 1, 1, 0}));
  EXPECT_EQ(d.all<given_up>().size(), 1u);
}

TEST(StepCommit, ALostReplicaAbortsTheRunAndAllLaterOnes) {
  desk d{2};
  d.keep(d.book.run(0, 9));
  d.keep(d.book.on_lost(1, "killed"));
  EXPECT_TRUE(d.all<given_up>().empty()); // replica 0 has not left its step
  d.keep(d.book.on(seated{2, 0, 1, 0}));
  EXPECT_EQ(d.last<given_up>().code, cause::lost);
  EXPECT_EQ(d.last<given_up>().why, "replica 1 was lost in step 0: killed");
  d.keep(d.book.run(0, 9));
  EXPECT_TRUE(has(d.last<given_up>().why, "replica 1 is lost"));
}

TEST(StepCommit, ProbesBeforeItAborts) {
  desk d{3};
  d.keep(d.book.run(0, 9));
  d.keep(d.book.on_late("5 s"));
  EXPECT_EQ(d.last<send_probes>().to_all.step, 0u);
  d.keep(d.book.on(blame{1, 0, false, 0, doing::sum, 7, {}}));
  d.keep(d.book.on(blame{1, 0, false, 2, doing::gather, 8, {1}}));
  d.keep(d.book.on(blame{1, 0, true, 3, doing::adding, 7, {1}}));
  d.keep(d.book.on_late("5 s"));
  d.seat_all();
  EXPECT_EQ(d.last<given_up>().code, cause::stalled);
  EXPECT_EQ(
    d.last<given_up>().why,
    "step 0 stalled for 5 s: replica 0 waits for the sum of bucket 7; replica "
    "2 waits in the gather of bucket 8, still missing replica 1; reducer 3 "
    "cannot finish the sum of bucket 7, still missing replica 1; replica 1 "
    "does not answer: it is in the step function, or its process is stopped");
}

TEST(StepCommit, AReportDuringAProbeIsProgress) {
  desk d{2};
  d.keep(d.book.run(0, 1));
  d.keep(d.book.on_late("5 s"));
  EXPECT_TRUE(d.book.probing());
  d.report_step(0, 0);
  EXPECT_FALSE(d.book.probing());
  d.report_step(1, 0);
  EXPECT_EQ(d.last<ended>().next, 1u);
}

TEST(StepCommit, AReportOfAStepNotGrantedIsAProtocolError) {
  desk d{1};
  d.keep(d.book.run(0, 1));
  d.report_step(0, 5);
  d.seat_all();
  EXPECT_EQ(d.last<given_up>().code, cause::protocol);
}

TEST(StepCommit, BeginsANewGenerationUnlessTheRunIsContiguous) {
  desk d{1};
  d.keep(d.book.run(0, 1));
  d.report_step(0, 0);
  d.keep(d.book.run(1, 1));
  EXPECT_EQ(d.book.epoch(), 1u);
  d.report_step(0, 1);
  d.keep(d.book.run(0, 1));
  EXPECT_EQ(d.book.epoch(), 2u);
}

TEST(StepCommit, GrantsAtMostTwoWindowsBeyondTheAcknowledgedStep) {
  desk d{1};
  d.hears = false;
  d.keep(d.book.run(0, 100));
  for (std::uint64_t s = 0; s < 2 * lease; ++s)
    d.report_step(0, s);
  EXPECT_EQ(d.last<send_grants>().to_all.until, 2 * lease);
  EXPECT_FALSE(d.book.busy()); // replicas wait for the caller's acknowledgement
  d.keep(d.book.heard(1));
  EXPECT_EQ(d.last<send_grants>().to_all.until, 2 * lease + 1);
  EXPECT_TRUE(d.book.busy());
  EXPECT_TRUE(d.book.heard(1).empty());   // repeated
  EXPECT_TRUE(d.book.heard(100).empty()); // not committed
}

TEST(StepCommit, StopCompletesAtOnceIfAllGrantedStepsAreCommitted) {
  desk d{1};
  d.hears = false;
  d.keep(d.book.run(0, 100));
  for (std::uint64_t s = 0; s < 2 * lease; ++s)
    d.report_step(0, s);
  d.keep(d.book.stop());
  EXPECT_EQ(d.last<ended>().next, 2 * lease);
}
