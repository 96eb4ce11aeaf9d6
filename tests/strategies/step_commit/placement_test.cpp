#include "troupe/strategies/step_commit/state_machine.hpp"

#include <gtest/gtest.h>

// Decisions of the chief when replicas are in several processes, and the state
// that it keeps between runs.

using namespace troupe;
using namespace troupe::commit;

namespace {

const places two{{"chief 0", "worker 1"}, {0, 2, 4}};

/// A state machine whose replicas are configured and have an active run.
struct desk {
  explicit desk(std::uint64_t lease = 4, const places& where = two,
                std::uint64_t steps = 100)
    : book{4, lease, where} {
    keep(book.open());
    seat_all();
    keep(book.run(0, steps));
  }
  void keep(reaction&& what) {
    for (auto& x : what)
      said.push_back(std::move(x));
  }
  void seat_all() {
    for (std::uint32_t r = 0; r < 4; ++r)
      keep(book.on(seated{book.epoch(), r, 1, 0}));
  }
  void report_all(std::uint64_t step) {
    for (std::uint32_t r = 0; r < 4; ++r)
      keep(book.on(report{book.epoch(), step, r, 1, {}}));
    keep(book.heard(step + 1));
  }
  template <class T>
  std::vector<T> all() const {
    std::vector<T> out;
    for (const auto& x : said)
      if (auto* it = std::get_if<T>(&x))
        out.push_back(*it);
    return out;
  }

  ledger book;
  reaction said;
};

} // namespace

TEST(StepCommitOverProcesses, NamesTheWorkerTheStepAndTheOperation) {
  desk d;
  d.report_all(0);
  d.keep(d.book.on_process_lost(1, cause::lost, "closed by the peer"));
  EXPECT_EQ(d.all<send_probes>().back().to_all.step, 1u);
  d.keep(d.book.on(blame{1, 1, false, 0, doing::sum, 3, {2, 3}}));
  EXPECT_TRUE(d.book.probing()) << "replica 1 may still answer the probe";
  d.keep(d.book.on(blame{1, 1, false, 1, doing::idle, 0, {}}));
  EXPECT_TRUE(d.all<given_up>().empty())
    << "the replicas have not left their steps";
  d.keep(d.book.on(seated{2, 0, 1, 0}));
  d.keep(d.book.on(seated{2, 1, 1, 0}));
  ASSERT_EQ(d.all<given_up>().size(), 1u);
  EXPECT_EQ(d.all<given_up>()[0].code, cause::lost);
  EXPECT_EQ(d.all<given_up>()[0].why,
            "worker 1 was lost in step 1: closed by the peer; replica 0 waits "
            "for the sum of bucket 3, still missing replicas 2, 3; replica 1 "
            "has nothing to do");
}

TEST(StepCommitOverProcesses, IgnoresWaitReportsOfUnknownReplicas) {
  desk d;
  d.keep(d.book.on_process_lost(1, cause::lost, "closed by the peer"));
  d.keep(d.book.on(blame{1, 0, false, 4, doing::sum, 3, {}}));
  d.keep(d.book.on(blame{1, 0, false, 0, doing::sum, 3, {2, 3, 2, 3, 2}}));
  d.keep(d.book.on(blame{1, 0, false, 0, doing::sum, 7, {2, 3}}));
  d.keep(d.book.on(blame{1, 0, false, 0, doing::sum, 8, {2, 3}})); // twice
  d.keep(d.book.on(blame{1, 0, false, 1, doing::idle, 0, {}}));
  d.keep(d.book.on(seated{2, 0, 1, 0}));
  d.keep(d.book.on(seated{2, 1, 1, 0}));
  ASSERT_EQ(d.all<given_up>().size(), 1u);
  EXPECT_EQ(d.all<given_up>()[0].why,
            "worker 1 was lost in step 0: closed by the peer; replica 0 waits "
            "for the sum of bucket 7, still missing replicas 2, 3; replica 1 "
            "has nothing to do");
}

TEST(StepCommitOverProcesses, DoesNotWaitForeverForReplicasThatDoNotAnswer) {
  desk d;
  d.keep(d.book.on_process_lost(1, cause::unreachable, "silent for 1 s"));
  d.keep(d.book.on_late("1 s"));
  d.keep(d.book.on_late("1 s")); // no acknowledgement: configure is sent again
  d.keep(d.book.on_late("1 s"));
  ASSERT_EQ(d.all<given_up>().size(), 1u);
  EXPECT_EQ(d.all<given_up>()[0].code, cause::unreachable);
}

TEST(StepCommitOverProcesses, NamesTheReplicaWhoseStepFunctionFailed) {
  desk d;
  d.keep(d.book.on(failed{1, 0, 3, 1, cause::invalid, "no such file"}));
  d.seat_all();
  EXPECT_EQ(d.all<given_up>().at(0).why,
            "replica 3 of worker 1 failed in step 0: no such file");
}

TEST(StepCommitOverProcesses, GrantsAQuarterOfAWideWindowAtATime) {
  desk d{16};
  for (std::uint64_t s = 0; s < 40; ++s)
    d.report_all(s);
  EXPECT_EQ(d.all<committed>().size(), 40u);
  EXPECT_EQ(d.all<send_grants>().size(), 10u);
  EXPECT_EQ(d.all<send_grants>().back().to_all.until, 56u);
}

TEST(StepCommitOverProcesses, GrantsThePartialBatchAtTheEnd) {
  desk d{16, two, 18};
  for (std::uint64_t s = 0; s < 18; ++s)
    d.report_all(s);
  EXPECT_EQ(d.all<ended>().at(0).next, 18u);
}

TEST(StepCommit, RejectsRunsAfterAReducerWasLost) {
  ledger book{1, 4};
  book.open();
  book.on_reducer_lost(2, "killed");
  const auto said = book.run(0, 1);
  const auto& why = std::get<given_up>(said.at(0));
  EXPECT_EQ(why.code, cause::lost);
  EXPECT_EQ(why.why, "reducer 2 is lost; the group cannot reduce without it");
}

TEST(StepCommit, IgnoresMessagesOfAnotherIncarnation) {
  desk d{4, {}};
  for (std::uint32_t r = 0; r < 4; ++r)
    d.keep(d.book.on(report{1, 0, r, 2, {}}));
  d.keep(d.book.on(failed{1, 0, 1, 2, cause::invalid, "not mine"}));
  EXPECT_TRUE(d.all<committed>().empty());
  d.report_all(0);
  EXPECT_EQ(d.all<committed>().size(), 1u);
}

TEST(StepCommit, CountsOneWaitReportPerRole) {
  desk d{4, {}};
  d.keep(d.book.on_late("1 s"));
  d.keep(d.book.on(blame{1, 0, false, 0, doing::computing, 0, {}}));
  d.keep(d.book.on(blame{1, 0, false, 0, doing::computing, 0, {}}));
  d.keep(d.book.on_late("1 s"));
  d.seat_all();
  const auto why = d.all<given_up>().at(0).why;
  EXPECT_EQ(why.find("replica 0"), why.rfind("replica 0")) << why;
}

TEST(StepCommit, ResendsConfigureOnceIfItIsNotAcknowledged) {
  ledger book{2, 4};
  book.open();
  book.on(seated{1, 0, 1, 0});
  book.run(0, 1);
  const auto again = book.on_late("1 s");
  EXPECT_EQ(std::get<send_seats>(again.at(0)).whom,
            std::vector<std::uint32_t>{1});
  EXPECT_TRUE(book.probing()) << "the shorter timeout applies";
  const auto begun = book.on(seated{1, 1, 1, 0});
  EXPECT_TRUE(std::holds_alternative<send_orders>(begun.at(0)));
}
