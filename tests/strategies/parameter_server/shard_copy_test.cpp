#include "trained.hpp"
#include "troupe/strategies/parameter_server/shard_copy.hpp"
#include "troupe/strategies/parameter_server/worker.hpp"
#include "troupe/strategies/placement.hpp"

#include <gtest/gtest.h>

// Single steps of the protocol. Runs under faults are in
// random_jobs_test.cpp.

namespace troupe::parameter_server {

namespace {

using enum consistency_kind;

/// Returns the only effect of this type in the reaction.
template <class Effect, class Reaction>
const Effect& only(const Reaction& all) {
  const Effect* found = nullptr;
  for (const auto& one : all)
    if (const auto* x = std::get_if<Effect>(&one)) {
      EXPECT_FALSE(found) << "two effects of one type";
      found = x;
    }
  if (!found)
    throw std::logic_error("the effect is missing");
  return *found;
}

template <class Effect, class Reaction>
std::size_t count(const Reaction& all) {
  std::size_t out = 0;
  for (const auto& one : all)
    out += std::holds_alternative<Effect>(one);
  return out;
}

constexpr std::uint64_t primary_id = 10, backup_id = 11, worker_id = 20;

shard_view view(std::uint64_t id, std::vector<std::uint64_t> backups) {
  return {id, 1, 0, primary_id, std::move(backups), {worker_id}};
}

push push_of(std::uint32_t replica, std::uint64_t step, std::uint32_t part = 0,
             std::uint64_t view_id = 1) {
  return {view_id, {replica, step, part}, 0};
}

push_result result_of(const shard_reaction& all) {
  return only<answer_push>(all).pushed.result;
}

/// A primary and a backup that is in sync.
/// A decision of chief 1, of view 1.
decision decided_by_1(std::uint64_t step, std::vector<std::uint32_t> of,
                      std::uint64_t training = 0) {
  return {1, step, std::move(of), training, 1};
}

/// Lets chief 1 ask a copy that has no backup.
void ask(shard_copy& alone, std::uint64_t training = 0) {
  EXPECT_EQ(count<answer_decision_query>(
              alone.on(decision_query{alone.view_id(), training, 1})),
            1u);
}

struct pair_of_copies {
  explicit pair_of_copies(const std::vector<consistency>& parts)
    : primary{primary_id, trained(parts, 2)},
      backup{backup_id, trained(parts, 2)} {
    primary.on_view(view(1, {backup_id}));
    deliver(backup.on_view(view(1, {backup_id})));
  }

  /// Gives the primary what the backup answers, and the reverse.
  void deliver(const shard_reaction& from_backup) {
    for (const auto& one : from_backup)
      if (const auto* x = std::get_if<send_stored>(&one))
        for (const auto& effect : primary.on(x->stored)) {
          answers.push_back(effect);
          if (const auto* sent = std::get_if<send_snapshot>(&effect))
            deliver(backup.on(sent->snapshot, sent->gradients));
          if (const auto* told = std::get_if<send_in_sync>(&effect))
            deliver(backup.on(told->in_sync));
        }
  }

  shard_copy primary, backup;
  shard_reaction answers; ///< Effects of the primary.
};

TEST(ShardCopy, AnswersAPushWithoutABackupAtOnce) {
  shard_copy alone{primary_id, trained({{asynchronous}}, 2)};
  EXPECT_EQ(count<send_serving>(alone.on_view(view(1, {}))), 1u);
  const auto done = alone.on(worker_id, push_of(1, 0), {});
  EXPECT_EQ(only<apply>(done).update.version, 1u);
  EXPECT_EQ(result_of(done), push_result::accepted);
  const auto again = alone.on(worker_id, push_of(1, 0), {});
  EXPECT_EQ(result_of(again), push_result::repeated);
  EXPECT_EQ(count<apply>(again), 0u);
}

TEST(ShardCopy, AppliesAndAnswersAPushWhenTheBackupHasIt) {
  pair_of_copies both{{{asynchronous}}};
  const payload gradient{std::make_shared<const int>(1), 4};
  const auto sent = both.primary.on(worker_id, push_of(0, 0), gradient);
  EXPECT_EQ(count<apply>(sent), 0u);
  EXPECT_EQ(count<answer_push>(sent), 0u);
  const auto& next = only<send_record>(sent);
  EXPECT_EQ(next.gradient, gradient);
  // Until then a repeated push is not answered, and a read waits.
  EXPECT_TRUE(both.primary.on(worker_id, push_of(0, 0), gradient).empty());
  EXPECT_TRUE(both.primary.on(worker_id, pull{1, 1, 0, 1, {0}}).empty());
  both.answers.clear();
  both.deliver(both.backup.on(next.record, gradient));
  ASSERT_EQ(both.answers.size(), 3u);
  EXPECT_TRUE(std::holds_alternative<apply>(both.answers[0]));
  EXPECT_EQ(result_of(both.answers), push_result::accepted);
  EXPECT_EQ(only<answer_pull>(both.answers).pulled.next_step, 1u);
}

TEST(ShardCopy, SaysWhyItRejectsAPush) {
  shard_copy alone{primary_id, trained({{asynchronous}}, 2)};
  alone.on_view(view(3, {}));
  const auto why = [&](const push& x) {
    return result_of(alone.on(worker_id, x, {}));
  };
  EXPECT_EQ(why(push_of(2, 0, 0, 3)), push_result::unknown_replica);
  EXPECT_EQ(why(push_of(0, 0, 1, 3)), push_result::unknown_part);
  EXPECT_EQ(why(push_of(0, 65, 0, 3)), push_result::future_step);
  EXPECT_EQ(why(push_of(0, 0, 0, 2)), push_result::stale_view);
  // The sender is ahead: this copy will learn the view too.
  EXPECT_TRUE(alone.on(worker_id, push_of(0, 0, 0, 4), {}).empty());
}

TEST(ShardCopy, RejectsPullsAndDecisionsThatCannotBe) {
  shard_copy alone{primary_id, trained({{synchronous, 0, 1}}, 2)};
  alone.on_view(view(1, {}));
  ask(alone);
  const auto is_error = [](const shard_reaction& x) {
    return x.size() == 1 && std::holds_alternative<protocol_error>(x[0]);
  };
  EXPECT_TRUE(is_error(alone.on(worker_id, pull{1, 1, 2, 0, {0}})));
  EXPECT_TRUE(is_error(alone.on(worker_id, pull{1, 1, 0, 0, {1}})));
  EXPECT_TRUE(is_error(alone.on(worker_id, pull{1, 1, 0, 0, {0, 0}})));
  alone.on(worker_id, push_of(0, 0), {});
  EXPECT_TRUE(is_error(alone.on(decided_by_1(0, {}))));
  EXPECT_TRUE(is_error(alone.on(decided_by_1(0, {0, 0}))));
  EXPECT_TRUE(is_error(alone.on(decided_by_1(0, {0, 2}))));
  // Another primary can have them, in a newer view.
  EXPECT_TRUE(alone.on(decided_by_1(0, {0, 1})).empty());
  EXPECT_TRUE(alone.on(decided_by_1(1, {0})).empty());
  const auto done = alone.on(decided_by_1(0, {0}));
  EXPECT_EQ(only<apply>(done).update.contributions.size(), 1u);
  EXPECT_EQ(only<answer_decision>(done).decided.step, 0u);
  // Sent again, it is only answered.
  EXPECT_EQ(alone.on(decided_by_1(0, {0})).size(), 1u);
  EXPECT_EQ(result_of(alone.on(worker_id, push_of(1, 0), {})),
            push_result::decided);
}

TEST(ShardCopy, RejectsAnotherDecisionOnTheLastStep) {
  shard_copy alone{primary_id, trained({{synchronous, 0, 1}}, 2)};
  alone.on_view(view(1, {}));
  ask(alone);
  alone.on(worker_id, push_of(0, 0), {});
  alone.on(worker_id, push_of(1, 0), {});
  alone.on(decided_by_1(0, {0}));
  EXPECT_EQ(count<protocol_error>(alone.on(decided_by_1(0, {1}))), 1u);
}

TEST(ShardCopy, TellsAChiefTheLastDecisionWhenTheBackupsHaveItsQuery) {
  pair_of_copies both{{{synchronous, 0, 1}, {asynchronous}}};
  const auto store = [&](const shard_reaction& sent) {
    both.answers.clear();
    both.deliver(both.backup.on(only<send_record>(sent).record, {}));
    return both.answers;
  };
  const auto told = [](const shard_reaction& x) {
    return only<answer_decision_query>(x).last_decision;
  };
  const decision_query first{1, 0, 3}, later{1, 0, 8};
  EXPECT_TRUE(both.primary.on(decision_query{0, 0, 3}).empty());
  EXPECT_TRUE(both.primary.on(decision_query{2, 0, 3}).empty());
  EXPECT_TRUE(both.backup.on(first).empty());
  const auto asked = both.primary.on(first);
  EXPECT_EQ(count<answer_decision_query>(asked), 0u);
  EXPECT_TRUE(both.primary.awaits_query(0, 3));
  EXPECT_TRUE(both.primary.on(first).empty()); // it waits
  EXPECT_TRUE(told(store(asked)).decided.empty());
  EXPECT_FALSE(both.primary.awaits_query(0, 3));
  EXPECT_EQ(told(both.primary.on(first)).last_chief, 3u); // repeated
  for (const std::uint32_t replica : {0, 1})
    store(both.primary.on(worker_id, push_of(replica, 0), {}));
  const auto decided = both.primary.on(decision{1, 0, {1}, 0, 3});
  // The query is behind the decision, so its answer names the decision.
  const auto fenced = both.primary.on(later);
  EXPECT_EQ(count<answer_decision_query>(fenced), 0u);
  store(decided);
  const auto last = told(store(fenced));
  EXPECT_EQ(last.last_chief, 8u);
  ASSERT_EQ(last.decided.size(), 1u);
  EXPECT_EQ(last.decided[0].step, 0u);
  EXPECT_EQ(last.decided[0].contributors, std::vector<std::uint32_t>{1});
  // The backup knows all of it, as the next primary.
  both.backup.on_view({2, 2, 1, backup_id, {}, {worker_id}});
  EXPECT_TRUE(both.backup.on(decision_query{2, 0, 8}).empty()); // not serving
  both.backup.on(accepted{2, worker_id});
  EXPECT_EQ(
    told(both.backup.on(decision_query{2, 0, 8})).decided[0].contributors,
    std::vector<std::uint32_t>{1});
  EXPECT_TRUE(both.backup.on(decision{1, 0, {1}, 0, 8}).empty()); // older view
}

TEST(ShardCopy, TakesNoDecisionOfAnEarlierChiefThanTheLastThatHasAsked) {
  pair_of_copies both{{{synchronous, 0, 1}}};
  const auto store = [&](const shard_reaction& sent) {
    both.answers.clear();
    both.deliver(both.backup.on(only<send_record>(sent).record, {}));
    return both.answers;
  };
  store(both.primary.on(decision_query{1, 0, 3}));
  store(both.primary.on(worker_id, push_of(0, 0), {}));
  const auto asked = both.primary.on(decision_query{1, 0, 8});
  // The backup does not have the query yet.
  const auto refused = both.primary.on(decision{1, 0, {0}, 0, 3});
  EXPECT_EQ(refused.size(), 1u);
  EXPECT_EQ(only<answer_decision>(refused).decided.last_chief, 8u);
  EXPECT_TRUE(both.primary.on(decision_query{1, 0, 9}).empty()); // one waits
  EXPECT_EQ(count<protocol_error>(both.primary.on(decision{1, 0, {0}, 0, 9})),
            1u);
  store(asked);
  EXPECT_EQ(
    only<answer_decision_query>(both.primary.on(decision_query{1, 0, 3}))
      .last_decision.last_chief,
    8u);
  EXPECT_EQ(only<answer_decision>(both.primary.on(decision{1, 0, {0}, 0, 3}))
              .decided.last_chief,
            8u);
  // The next primary knows the last chief from the log, and from a snapshot.
  both.backup.on_view({2, 2, 1, backup_id, {primary_id}, {}});
  EXPECT_EQ(only<answer_decision>(both.backup.on(decision{2, 0, {0}, 0, 3}))
              .decided.last_chief,
            8u);
  EXPECT_EQ(
    only<send_snapshot>(both.backup.on(stored{2, primary_id, false, 0, false}))
      .snapshot.chief,
    8u);
}

TEST(ShardCopy, ASnapshotLacksAQueryThatIsNotApplied) {
  pair_of_copies both{{{synchronous, 0, 1}}};
  const auto first = both.primary.on(decision_query{1, 0, 3});
  both.deliver(both.backup.on(only<send_record>(first).record, {}));
  EXPECT_EQ(count<send_record>(both.primary.on(decision_query{1, 0, 8})), 1u);
  const std::uint64_t other = 77;
  both.primary.on_view(view(2, {backup_id, other}));
  EXPECT_EQ(
    only<send_snapshot>(both.primary.on(stored{2, other, false, 0, false}))
      .snapshot.chief,
    3u);
  // Nevertheless the earlier chief has no say any more.
  EXPECT_EQ(only<answer_decision>(both.primary.on(decision{2, 0, {0}, 0, 3}))
              .decided.last_chief,
            8u);
}

TEST(ShardCopy, RejectsAChiefThatHasNotAsked) {
  shard_copy alone{primary_id, trained({{synchronous}}, 1)};
  alone.on_view(view(1, {}));
  alone.on(worker_id, push_of(0, 0), {});
  for (const std::uint64_t chief : {0, 1})
    EXPECT_EQ(count<protocol_error>(alone.on(decision{1, 0, {0}, 0, chief})),
              1u);
  EXPECT_EQ(count<protocol_error>(alone.on(decision_query{1, 0, 0})), 1u);
}

TEST(ShardCopy, ASnapshotContainsTheLastDecision) {
  shard_copy primary{primary_id, trained({{synchronous}}, 1)};
  primary.on_view(view(1, {}));
  ask(primary);
  primary.on(worker_id, push_of(0, 0), {});
  primary.on(decided_by_1(0, {0}));
  primary.on_view(view(2, {backup_id}));
  const auto made =
    only<send_snapshot>(primary.on(stored{2, backup_id, false, 0, false}))
      .snapshot;
  ASSERT_EQ(made.decided.size(), 1u);
  const auto is_taken = [](const snapshot& given) {
    shard_copy backup{backup_id, trained({{synchronous}}, 1)};
    backup.on_view(view(2, {backup_id}));
    return count<install_snapshot>(backup.on(given, {})) == 1;
  };
  EXPECT_TRUE(is_taken(made));
  auto wrong = made;
  wrong.decided.clear();
  EXPECT_FALSE(is_taken(wrong));
  wrong.decided = {made.decided[0], made.decided[0]};
  EXPECT_FALSE(is_taken(wrong));
  wrong = made;
  wrong.decided[0].step = 1;
  EXPECT_FALSE(is_taken(wrong));
  wrong = made;
  wrong.decided[0].contributors = {0, 0};
  EXPECT_FALSE(is_taken(wrong));
}

TEST(ShardCopy, ABackupRejectsWhatCannotFollow) {
  pair_of_copies both{{{asynchronous}}};
  const auto reply = [&](const record& x) { return both.backup.on(x, {}); };
  const auto is_error = [](const shard_reaction& x) {
    return x.size() == 1 && std::holds_alternative<protocol_error>(x[0]);
  };
  EXPECT_TRUE(is_error(reply({1, 1, {}, {}})));
  EXPECT_TRUE(is_error(reply({1, 1, {push_of(2, 0)}, {}})));
  EXPECT_TRUE(is_error(reply({1, 1, {push_of(0, 0, 1)}, {}})));
  EXPECT_TRUE(is_error(reply({1, 1, {push_of(0, 65)}, {}})));
  EXPECT_TRUE(is_error(reply({1, 1, {push_of(0, 0), push_of(1, 0)}, {}})));
  EXPECT_TRUE(reply({2, 1, {push_of(0, 0)}, {}}).empty()); // of another view
  // One that is missing is asked for by the number that was stored.
  EXPECT_EQ(
    only<send_stored>(reply({1, 2, {push_of(0, 0)}, {}})).stored.sequence, 0u);
  EXPECT_EQ(
    only<send_stored>(reply({1, 1, {push_of(0, 0)}, {}})).stored.sequence, 1u);
  const auto of_one = trained({{asynchronous}}, 2);
  EXPECT_TRUE(is_error(both.backup.on({1, 5, {}, {}, {}, of_one}, {})));
  EXPECT_TRUE(is_error(
    both.backup.on({1, 5, {{0, {{}, {}}, {}}}, {}, {}, of_one}, {{}})));
}

TEST(ShardCopy, ABackupBecomesThePrimaryAndWaitsForTheWorkers) {
  pair_of_copies both{{{asynchronous}}};
  const auto sent = both.primary.on(worker_id, push_of(0, 0), {});
  both.backup.on(only<send_record>(sent).record, {});
  EXPECT_TRUE(both.backup.position().is_in_sync);
  EXPECT_EQ(both.backup.position().sequence, 1u);
  const shard_view next{2, 2, 1, backup_id, {}, {worker_id}};
  EXPECT_EQ(count<send_serving>(both.backup.on_view(next)), 0u);
  EXPECT_TRUE(both.backup.on(worker_id, push_of(0, 0, 0, 2), {}).empty());
  EXPECT_EQ(count<send_serving>(both.backup.on(accepted{2, worker_id})), 1u);
  // It has the contribution that the first primary did not acknowledge.
  EXPECT_EQ(result_of(both.backup.on(worker_id, push_of(0, 0, 0, 2), {})),
            push_result::repeated);
  // The first primary can acknowledge nothing more.
  const auto late = both.primary.on(worker_id, push_of(1, 0), {});
  EXPECT_EQ(count<answer_push>(late), 0u);
  EXPECT_TRUE(both.backup.on(only<send_record>(late).record, {}).empty());
}

TEST(ShardCopy, ACopyThatLacksUpdatesDoesNotBecomeThePrimary) {
  shard_copy backup{backup_id, trained({{asynchronous}}, 2)};
  backup.on_view(view(1, {backup_id}));
  const auto refused = backup.on_view({2, 2, 1, backup_id, {}, {worker_id}});
  EXPECT_EQ(count<protocol_error>(refused), 1u);
  EXPECT_FALSE(backup.is_primary());
}

TEST(ShardCopy, ABackupThatMissedAViewIsNotInSyncUntilItIsTold) {
  pair_of_copies both{{{asynchronous}}};
  both.backup.on_view(view(3, {backup_id}));
  EXPECT_FALSE(both.backup.position().is_in_sync);
  both.primary.on_view(view(3, {backup_id}));
  both.deliver({send_stored{primary_id, {3, backup_id, true, 0, false}}});
  EXPECT_TRUE(both.backup.position().is_in_sync);
}

TEST(ShardCopy, WaitsForTheWorkersInEachViewUntilItHasServed) {
  pair_of_copies both{{{asynchronous}}};
  both.backup.on_view({2, 2, 1, backup_id, {}, {worker_id}});
  EXPECT_EQ(count<send_serving>(
              both.backup.on_view({3, 2, 1, backup_id, {}, {worker_id}})),
            0u);
  EXPECT_TRUE(both.backup.on(accepted{2, worker_id}).empty());
  EXPECT_EQ(count<send_serving>(both.backup.on(accepted{3, worker_id})), 1u);
  // A worker that has not heard it asks again.
  EXPECT_EQ(count<send_serving>(both.backup.on(accepted{3, worker_id})), 1u);
  EXPECT_EQ(count<send_serving>(
              both.backup.on_view({4, 2, 1, backup_id, {}, {worker_id}})),
            1u);
}

TEST(ShardCopy, ALateAnswerWithoutAStateDoesNotEndTheWaitForABackup) {
  pair_of_copies both{{{asynchronous}}};
  EXPECT_TRUE(both.primary.on(stored{1, backup_id, false, 0, false}).empty());
  const auto sent = both.primary.on(worker_id, push_of(0, 0), {});
  EXPECT_EQ(count<answer_push>(sent), 0u);
}

TEST(ShardCopy, TellsABackupThatItIsInSyncOnlyWhenItHasAnsweredInThisView) {
  pair_of_copies both{{{asynchronous}}};
  both.primary.on_view(view(3, {backup_id}));
  const auto asked = both.primary.on_timeout();
  EXPECT_EQ(count<send_in_sync>(asked), 0u);
  EXPECT_EQ(count<send_inquire>(asked), 1u);
  // The backup has lost its state in a view that the primary has missed.
  const auto again = both.primary.on(stored{3, backup_id, false, 0, false});
  EXPECT_EQ(count<send_snapshot>(again), 1u);
  EXPECT_EQ(count<send_in_sync>(both.primary.on_timeout()), 0u);
}

/// A primary that has given a backup two records, and another backup a number
/// of them. It is lost, and the first backup is the primary of view 2.
struct backups_of_a_lost_primary {
  explicit backups_of_a_lost_primary(std::uint64_t records_of_other) {
    shard_copy lost{primary_id, trained({{asynchronous}}, 1)};
    const auto first = view(1, {backup_id, other_id});
    lost.on_view(first);
    for (auto* const one : {&next, &other}) {
      const auto& entered = one->on_view(first);
      const auto sent = lost.on(only<send_stored>(entered).stored);
      const auto& state = only<send_snapshot>(sent);
      const auto taken = one->on(state.snapshot, state.gradients);
      const auto told = lost.on(only<send_stored>(taken).stored);
      one->on(only<send_in_sync>(told).in_sync);
    }
    for (std::uint64_t step = 0; step < 3; ++step)
      for (const auto& effect : lost.on(worker_id, push_of(0, step), {}))
        if (const auto* x = std::get_if<send_record>(&effect)) {
          auto& to = x->backup == backup_id ? next : other;
          if (step < (x->backup == backup_id ? 2 : records_of_other))
            to.on(x->record, x->gradient);
        }
    const shard_view second{2, 2, 1, backup_id, {other_id}, {worker_id}};
    asked = only<send_inquire>(next.on_view(second)).inquire;
    EXPECT_TRUE(other.on_view(second).empty());
    EXPECT_FALSE(other.position().is_in_sync);
  }

  static constexpr std::uint64_t other_id = 12;
  shard_copy next{backup_id, trained({{asynchronous}}, 1)};
  shard_copy other{other_id, trained({{asynchronous}}, 1)};
  inquire asked;
};

TEST(ShardCopy, ABackupThatFollowedTheSamePrimaryGetsTheRecordsThatItLacks) {
  for (const std::uint64_t records : {0, 1, 2}) {
    backups_of_a_lost_primary both{records};
    const auto kept = both.other.on(both.asked);
    EXPECT_EQ(count<drop_state>(kept), 0u);
    EXPECT_EQ(only<send_stored>(kept).stored.sequence, records);
    const auto sent = both.next.on(only<send_stored>(kept).stored);
    EXPECT_EQ(count<send_snapshot>(sent), 0u);
    EXPECT_EQ(count<send_record>(sent), 2 - records);
    std::uint64_t last = records;
    for (const auto& one : sent)
      if (const auto* x = std::get_if<send_record>(&one))
        last = only<send_stored>(both.other.on(x->record, x->gradient))
                 .stored.sequence;
    EXPECT_EQ(last, 2u);
    const auto told = both.next.on(stored{2, both.other_id, true, 2, false});
    both.other.on(only<send_in_sync>(told).in_sync);
    EXPECT_TRUE(both.other.position().is_in_sync);
    // It is awaited, as before.
    both.next.on(accepted{2, worker_id});
    const auto pushed = both.next.on(worker_id, push_of(0, 2, 0, 2), {});
    EXPECT_EQ(count<apply>(pushed), 0u);
    EXPECT_EQ(only<send_record>(pushed).record.sequence, 3u);
  }
}

TEST(ShardCopy, ABackupDropsItsStateIfTheNewPrimaryLacksARecordOfIt) {
  backups_of_a_lost_primary both{3};
  // It takes nothing of the new primary before it knows that.
  EXPECT_FALSE(
    only<send_stored>(both.other.on(record{2, 4, {push_of(0, 3)}, {}}, {}))
      .stored.has_state);
  EXPECT_EQ(both.other.position().sequence, 3u);
  const auto dropped = both.other.on(both.asked);
  EXPECT_EQ(count<drop_state>(dropped), 1u);
  EXPECT_FALSE(only<send_stored>(dropped).stored.has_state);
  const auto sent = both.next.on(only<send_stored>(dropped).stored);
  EXPECT_EQ(only<send_snapshot>(sent).snapshot.sequence, 2u);
}

TEST(ShardCopy, ABackupDropsItsStateIfTheLogOfTheNewPrimaryBeginsAfterIt) {
  backups_of_a_lost_primary both{1};
  auto asked = both.asked;
  EXPECT_EQ(asked.log_begin, 1u);
  EXPECT_EQ(asked.term_begin, 2u);
  asked.log_begin = 3;
  EXPECT_EQ(count<drop_state>(both.other.on(asked)), 1u);
}

TEST(ShardCopy, ABackupKeepsTheRecordsThatAnotherBackupMayLack) {
  pair_of_copies both{{{asynchronous}}};
  for (std::uint64_t step = 0; step < 3; ++step) {
    const auto sent =
      both.primary.on(worker_id, push_of(0, step), {nullptr, 5});
    const auto& next = only<send_record>(sent);
    both.deliver(both.backup.on(next.record, next.gradient));
    // It is the only one, so its primary keeps none that it has stored.
    EXPECT_EQ(both.backup.log_records(), 1u);
    EXPECT_EQ(both.backup.log_bytes(), 5u);
  }
}

TEST(ShardCopy, ForgetsRecordsWhenTheSlowestBackupHasStoredThem) {
  constexpr std::uint64_t other_id = 12;
  shard_copy primary{primary_id, trained({{asynchronous}}, 1)};
  primary.on_view(view(1, {backup_id, other_id}));
  const auto stores = [&](std::uint64_t backup, std::uint64_t sequence) {
    return primary.on(stored{1, backup, true, sequence, true});
  };
  for (const auto backup : {backup_id, other_id})
    stores(backup, 0);
  for (std::uint64_t step = 0; step < 3; ++step)
    primary.on(worker_id, push_of(0, step), {nullptr, 10 + step});
  EXPECT_EQ(primary.log_records(), 3u);
  EXPECT_EQ(primary.log_bytes(), 33u);
  stores(backup_id, 3);
  EXPECT_EQ(primary.log_records(), 3u);
  EXPECT_EQ(count<answer_push>(stores(other_id, 2)), 2u);
  EXPECT_EQ(primary.log_records(), 1u);
  EXPECT_EQ(primary.log_bytes(), 12u);
  // A backup that is none any more holds nothing up.
  primary.on_view(view(2, {backup_id}));
  EXPECT_EQ(primary.log_records(), 0u);
  EXPECT_EQ(primary.log_bytes(), 0u);
}

TEST(ShardCopy, SendsASnapshotAgainInLongerAndLongerIntervals) {
  shard_copy primary{primary_id, trained({{asynchronous}}, 1)};
  const auto enters = [&](std::uint64_t view_id) {
    return count<send_snapshot>(
      primary.on(stored{view_id, backup_id, false, 0, false}));
  };
  // The backup ignores what it gets before it enters the view.
  EXPECT_EQ(count<send_inquire>(primary.on_view(view(1, {backup_id}))), 1u);
  EXPECT_EQ(count<send_inquire>(primary.on_timeout()), 1u);
  EXPECT_EQ(enters(1), 1u);
  EXPECT_EQ(enters(1), 0u); // a late answer
  std::vector<int> sent_at;
  for (int interval = 1; interval <= 60; ++interval)
    if (count<send_snapshot>(primary.on_timeout()) > 0)
      sent_at.push_back(interval);
  EXPECT_EQ(sent_at, (std::vector{8, 24, 56}));
  // In another view the backup ignores those of the view before.
  primary.on_view(view(2, {backup_id}));
  EXPECT_EQ(enters(2), 1u);
  primary.on(stored{2, backup_id, true, 0, true});
  for (int interval = 0; interval < 200; ++interval)
    EXPECT_EQ(count<send_snapshot>(primary.on_timeout()), 0u);
}

TEST(ShardCopy, TakesNoPushThatExceedsALimitOfTheLog) {
  const auto primary_with = [](const shard_options& limits) {
    shard_copy out{primary_id, trained({{asynchronous}, {synchronous}}, 1),
                   limits};
    out.on_view(view(1, {backup_id}));
    out.on(stored{1, backup_id, true, 0, true});
    return out;
  };
  const auto takes = [](shard_copy& to, std::uint64_t step,
                        std::uint64_t bytes) {
    return !to.on(worker_id, push_of(0, step), {nullptr, bytes}).empty();
  };
  auto few = primary_with({2, 1'000});
  few.on(decision_query{1, 0, 1});
  few.on(stored{1, backup_id, true, 1, true});
  EXPECT_TRUE(takes(few, 0, 1));
  EXPECT_TRUE(few.on(worker_id, push_of(0, 0, 1), {}).size() == 1);
  EXPECT_FALSE(takes(few, 1, 1));
  few.on(stored{1, backup_id, true, 2, true});
  EXPECT_TRUE(takes(few, 1, 1));
  EXPECT_TRUE(few.on(decided_by_1(0, {0})).empty());
  few.on(stored{1, backup_id, true, 4, true});
  EXPECT_EQ(count<send_record>(few.on(decided_by_1(0, {0}))), 1u);

  auto small = primary_with({100, 10});
  EXPECT_TRUE(takes(small, 0, 11)); // a larger one is taken alone
  EXPECT_FALSE(takes(small, 1, 1));
  small.on(stored{1, backup_id, true, 1, true});
  EXPECT_TRUE(takes(small, 1, 9));
  EXPECT_FALSE(takes(small, 2, 2));
  EXPECT_FALSE(takes(small, 2, ~std::uint64_t{0}));
  EXPECT_TRUE(takes(small, 2, 1));
  EXPECT_FALSE(takes(small, 3, 1));
}

TEST(ShardCopy, ACopyThatMissedTheViewBeforeDoesNotBecomeThePrimary) {
  pair_of_copies both{{{asynchronous}}};
  // It has missed view 2, in which the primary may have had no backup.
  const auto refused =
    both.backup.on_view({3, 3, 1, backup_id, {}, {worker_id}});
  EXPECT_EQ(count<protocol_error>(refused), 1u);
  EXPECT_EQ(count<drop_state>(refused), 1u);
}

TEST(ShardCopy, IsReadInPlaceOnlyWhileItServesInTheViewOfTheWorker) {
  pair_of_copies both{{{bounded, 0}}};
  const auto wanted = [](std::uint64_t view_id, std::uint64_t step) {
    return pull{view_id, 0, 0, step, {0}};
  };
  const auto answer = both.primary.answer_in_place(wanted(1, 0));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->versions, std::vector<std::uint64_t>{0});
  EXPECT_FALSE(both.primary.answer_in_place(wanted(1, 1))); // it has to wait
  EXPECT_FALSE(both.primary.answer_in_place(wanted(0, 0)));
  EXPECT_FALSE(both.primary.answer_in_place(wanted(2, 0)));
  EXPECT_FALSE(both.primary.answer_in_place(pull{1, 0, 2, 0, {0}}));
  EXPECT_FALSE(both.primary.answer_in_place(pull{1, 0, 0, 0, {1}}));
  EXPECT_FALSE(both.backup.answer_in_place(wanted(1, 0)));
  const shard_view next{2, 2, 1, backup_id, {}, {worker_id}};
  both.backup.on_view(next);
  EXPECT_FALSE(both.backup.answer_in_place(wanted(2, 0)));
  both.backup.on(accepted{2, worker_id});
  EXPECT_TRUE(both.backup.answer_in_place(wanted(2, 0)));
  // The first primary has not heard of the view. Its worker has (below).
  EXPECT_TRUE(both.primary.answer_in_place(wanted(1, 0)));
  both.primary.on_view(next);
  EXPECT_FALSE(both.primary.answer_in_place(wanted(1, 0)));
}

TEST(Worker, CountsNoReadInPlaceThatAnUpdateOrAViewHasInterrupted) {
  worker self{worker_id, 1, 0};
  const auto begin = [&] { return self.read_in_place(0, 3, 1, {0}); };
  EXPECT_FALSE(begin());
  self.on_view(0, {1, primary_id});
  EXPECT_FALSE(begin()); // the shard does not serve yet
  self.on(0, serving{1});
  const auto read = begin();
  ASSERT_TRUE(read);
  EXPECT_EQ(read->primary, primary_id);
  EXPECT_EQ(read->pull.view_id, 1u);
  EXPECT_EQ(read->pull.replica, 3u);
  const pulled answer{1, 0, 3, 1, {7}}, later{1, 0, 3, 1, {8}};
  EXPECT_TRUE(self.counts(*read, answer, answer));
  EXPECT_FALSE(self.counts(*read, answer, later));
  EXPECT_FALSE(self.counts(*read, answer, {}));
  EXPECT_FALSE(self.counts(*read, {}, answer));
  self.on_view(0, {2, backup_id});
  EXPECT_FALSE(self.counts(*read, answer, answer));
  EXPECT_FALSE(begin());
  self.on(0, serving{2});
  EXPECT_EQ(begin()->primary, backup_id);
  EXPECT_FALSE(self.counts(*read, answer, answer));
}

TEST(Worker, KeepsAPushUntilItIsAcknowledged) {
  worker self{worker_id, 1, 0};
  EXPECT_EQ(count<send_accepted>(self.on_view(0, {1, primary_id})), 1u);
  // Nothing is sent before the shard serves.
  EXPECT_TRUE(self.push(0, {0, 0, 0}, 4, {}, {}).empty());
  EXPECT_TRUE(self.pull(0, 0, 1, {0}).empty());
  const auto sent = self.on(0, serving{1});
  EXPECT_EQ(only<send_push>(sent).push.read_version, 4u);
  EXPECT_EQ(only<send_pull>(sent).pull.step, 1u);
  EXPECT_EQ(self.on_timeout().size(), 2u);
  // A view of other primaries: all of it goes to the new one.
  EXPECT_EQ(only<send_accepted>(self.on_view(0, {2, backup_id})).primary,
            backup_id);
  EXPECT_TRUE(self.on(0, serving{1}).empty());
  const auto again = self.on(0, serving{2});
  EXPECT_EQ(only<send_push>(again).primary, backup_id);
  EXPECT_EQ(only<send_push>(again).push.view_id, 2u);
  EXPECT_EQ(only<send_pull>(again).pull.view_id, 2u);
  EXPECT_EQ(self.unacknowledged(), 1u);
  EXPECT_EQ(only<push_done>(self.on(0, pushed{2, {0, 0, 0}})).id.step, 0u);
  EXPECT_EQ(self.unacknowledged(), 0u);
  EXPECT_TRUE(self.on(0, pushed{2, {0, 0, 0}}).empty());
}

TEST(Worker, SendsNothingAgainWhenItHearsTwiceThatAShardServes) {
  worker self{worker_id, 1, 0};
  self.on_view(0, {1, primary_id});
  self.push(0, {0, 0, 0}, 0, {}, {});
  EXPECT_EQ(self.on(0, serving{1}).size(), 1u);
  EXPECT_TRUE(self.on(0, serving{1}).empty());
}

TEST(Worker, EntersTheViewsOfEachShardApart) {
  worker self{worker_id, 2, 0};
  self.on_view(0, {5, primary_id});
  self.on(0, serving{5});
  self.push(0, {0, 0, 0}, 0, {}, {});
  self.push(1, {0, 0, 0}, 0, {}, {});
  const auto first = self.on_view(1, {2, backup_id});
  ASSERT_EQ(first.size(), 1u); // shard 0 goes on in its view
  EXPECT_EQ(only<send_accepted>(first).accepted.view_id, 2u);
  EXPECT_TRUE(self.on(1, serving{5}).empty());
  const auto sent = self.on(1, serving{2});
  EXPECT_EQ(only<send_push>(sent).push.view_id, 2u);
  EXPECT_EQ(only<send_push>(sent).primary, backup_id);
  EXPECT_TRUE(self.on_view(1, {2, primary_id}).empty());
  EXPECT_EQ(self.on_timeout().size(), 2u);
}

TEST(Worker, IgnoresAnswersToOlderPulls) {
  worker self{worker_id, 1, 0};
  self.on_view(0, {1, primary_id});
  self.on(0, serving{1});
  const auto number = [](const worker_reaction& x) {
    return only<send_pull>(x).pull.number;
  };
  const auto first = number(self.pull(0, 0, 2, {0, 1}));
  const auto second = number(self.pull(0, 0, 2, {1, 2}));
  EXPECT_TRUE(self.on(0, pulled{1, first, 0, 2, {1, 1}}).empty());
  EXPECT_TRUE(self.on(0, pulled{0, second, 0, 2, {1, 1}}).empty());
  EXPECT_TRUE(self.on(0, pulled{1, second, 0, 2, {1}}).empty());
  EXPECT_TRUE(self.on(0, pulled{1, second, 1, 2, {1, 1}}).empty());
  EXPECT_EQ(
    only<pull_done>(self.on(0, pulled{1, second, 0, 2, {5, 6}})).versions,
    (std::vector<std::uint64_t>{5, 6}));
}

TEST(Worker, IgnoresShardsAndViewsThatDoNotExist) {
  worker self{worker_id, 1, 0};
  self.push(0, {0, 0, 0}, 0, {}, {});
  EXPECT_TRUE(self.on(0, serving{0}).empty());
  self.on_view(0, {1, primary_id});
  EXPECT_TRUE(self.on(1, serving{1}).empty());
  EXPECT_TRUE(self.on(1, pushed{1, {0, 0, 0}}).empty());
  EXPECT_TRUE(self.on(1, pulled{1, 1, 0, 0, {}}).empty());
  EXPECT_THROW(self.on_view(1, {2, primary_id}), std::out_of_range);
}

TEST(Worker, ForgetsAReplicaThatWasMoved) {
  worker self{worker_id, 1, 0};
  self.on_view(0, {1, primary_id});
  self.on(0, serving{1});
  self.push(0, {0, 0, 0}, 0, {}, {});
  self.push(0, {1, 0, 0}, 0, {}, {});
  self.pull(0, 0, 1, {0});
  self.release(0);
  EXPECT_EQ(self.on_timeout().size(), 1u);
  EXPECT_EQ(self.unacknowledged(), 1u);
}

TEST(Worker, ForgetsAPushThatItsHostGivesUp) {
  worker self{worker_id, 1, 0};
  self.on_view(0, {1, primary_id});
  self.on(0, serving{1});
  self.push(0, {0, 0, 0}, 4, {}, {});
  self.give_up(0, {0, 0, 0});
  EXPECT_TRUE(self.on_timeout().empty());
  // It can be made again, from another version.
  EXPECT_EQ(
    only<send_push>(self.push(0, {0, 0, 0}, 5, {}, {})).push.read_version, 5u);
}

TEST(Worker, ReportsWhyAPushWasRejected) {
  worker self{worker_id, 1, 0};
  self.on_view(0, {1, primary_id});
  self.on(0, serving{1});
  self.push(0, {0, 9, 3}, 0, {}, {});
  EXPECT_TRUE(
    self.on(0, pushed{0, {0, 9, 3}, push_result::stale_view}).empty());
  const auto all = self.on(0, pushed{1, {0, 9, 3}, push_result::unknown_part});
  EXPECT_EQ(only<worker_error>(all).result, push_result::unknown_part);
  EXPECT_EQ(self.unacknowledged(), 0u);
}

// -- commands -----------------------------------------------------------------

command command_of(std::uint64_t number, std::uint64_t answered_below = 0) {
  return {{7, number}, answered_below};
}

const payload some_content{std::make_shared<const int>(5), 4};

TEST(ShardCopy, PerformsACommandWhenTheBackupHasIt) {
  pair_of_copies both{{}};
  const auto sent = both.primary.on(command_of(0), some_content);
  ASSERT_EQ(sent.size(), 1u);
  const auto& next = only<send_record>(sent);
  EXPECT_EQ(next.gradient, some_content);
  // Until then a repeated command is not answered.
  EXPECT_TRUE(both.primary.on(command_of(0), some_content).empty());
  both.answers.clear();
  const auto stored_there = both.backup.on(next.record, some_content);
  EXPECT_EQ(only<apply_command>(stored_there).content, some_content);
  both.deliver(stored_there);
  ASSERT_EQ(both.answers.size(), 2u);
  EXPECT_EQ(only<apply_command>(both.answers).command.id, (command_id{7, 0}));
  EXPECT_EQ(only<answer_command>(both.answers).id, (command_id{7, 0}));
  // Then it is answered again, and has no effect.
  const auto again = both.primary.on(command_of(0), some_content);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(only<answer_command>(again).id, (command_id{7, 0}));
}

TEST(ShardCopy, AnswersAReadWhenTheBackupHasItsPlaceInTheLog) {
  pair_of_copies both{{}};
  auto read = command_of(0);
  read.is_read = true;
  const auto sent = both.primary.on(read, some_content);
  both.answers.clear();
  const auto stored_there =
    both.backup.on(only<send_record>(sent).record, some_content);
  EXPECT_EQ(count<apply_command>(stored_there), 0u);
  both.deliver(stored_there);
  ASSERT_EQ(both.answers.size(), 1u);
  EXPECT_EQ(only<answer_read>(both.answers).content, some_content);
}

TEST(ShardCopy, RefusesACommandThatItCannotPerform) {
  pair_of_copies both{{}};
  const auto why = [](const shard_reaction& x) {
    return only<refuse_command>(x).why;
  };
  EXPECT_EQ(why(both.backup.on(command_of(0), {})),
            command_refusal::not_serving);
  shard_copy alone{primary_id, {}, {.clients = {.max_open_commands = 2}}};
  alone.on_view(view(1, {}));
  alone.on(command_of(0), {});
  EXPECT_EQ(why(alone.on(command_of(2), {})), command_refusal::busy);
  alone.on(command_of(2, 1), {});
  EXPECT_EQ(why(alone.on(command_of(0), {})), command_refusal::forgotten);
  pair_of_copies full{{}};
  for (std::uint64_t i = 0; i < shard_options{}.max_log_records; ++i)
    full.primary.on(command_of(i), {});
  EXPECT_EQ(why(full.primary.on(command{{8, 0}}, {})), command_refusal::busy);
}

TEST(ShardCopy, GivesANewBackupTheMemoryOfCommands) {
  shard_copy primary{primary_id, {}}, backup{backup_id, {}};
  primary.on_view(view(1, {}));
  primary.on(command_of(0), some_content);
  primary.on_view(view(2, {backup_id}));
  const auto waits = only<send_stored>(backup.on_view(view(2, {backup_id})));
  const auto sent = primary.on(waits.stored);
  const auto has = only<send_stored>(
    backup.on(only<send_snapshot>(sent).snapshot, std::vector<payload>{}));
  const auto told = primary.on(has.stored);
  backup.on(only<send_in_sync>(told).in_sync);
  shard_view next{3, 3, 1, backup_id, {}, {}};
  backup.on_view(next);
  const auto again = backup.on(command_of(0), some_content);
  EXPECT_EQ(count<apply_command>(again), 0u);
  EXPECT_EQ(only<answer_command>(again).id, (command_id{7, 0}));
}

TEST(ShardCopy, RejectsARecordThatHoldsTwoThings) {
  pair_of_copies both{{}};
  record wrong{1, 1, {}, {}, 1, {command_of(0), command_of(1)}};
  EXPECT_EQ(count<protocol_error>(both.backup.on(wrong, {})), 1u);
  wrong.commands = {command_of(0, 1)};
  EXPECT_EQ(count<protocol_error>(both.backup.on(wrong, {})), 1u);
  wrong.commands = {};
  wrong.queries = {decision_query{1, 0, 1}, decision_query{1, 0, 2}};
  EXPECT_EQ(count<protocol_error>(both.backup.on(wrong, {})), 1u);
  wrong.queries = {decision_query{1, 5, 1}}; // of a training that has not begun
  EXPECT_EQ(count<protocol_error>(both.backup.on(wrong, {})), 1u);
}

// -- trainings ----------------------------------------------------------------

/// A command of client 8 that begins a training.
command begin_of(training next, std::uint64_t number = 0) {
  return {{8, number}, 0, false, {std::move(next)}};
}

push push_in(std::uint64_t training, std::uint32_t replica, std::uint64_t step,
             std::uint32_t part = 0) {
  return {1, {replica, step, part}, 0, training};
}

TEST(ShardCopy, BeginsATrainingInPlaceOfTheOneBefore) {
  shard_copy alone{primary_id, trained({{synchronous}}, 1)};
  alone.on_view(view(1, {}));
  ask(alone);
  alone.on(worker_id, push_of(0, 0), {});
  alone.on(decided_by_1(0, {0}));
  alone.on(worker_id, push_of(0, 1), {}); // waits for a decision
  EXPECT_TRUE(alone.on(worker_id, pull{1, 1, 0, 2, {0}}).empty());
  const auto next = trained({{asynchronous}, {synchronous}}, 3, 5);
  const auto begun = alone.on(begin_of(next), {});
  EXPECT_EQ(only<apply_command>(begun).command.id, (command_id{8, 0}));
  EXPECT_EQ(only<begin_training>(begun).training, next);
  EXPECT_EQ(count<answer_pull>(begun), 0u);
  EXPECT_EQ(alone.current(), next);
  ASSERT_EQ(alone.parts(), 2u);
  EXPECT_EQ(alone.contributions(1).version(), 0u);
  // What comes for the one before has no effect.
  EXPECT_EQ(result_of(alone.on(worker_id, push_of(0, 1), {})),
            push_result::training_ended);
  EXPECT_TRUE(alone.on(worker_id, pull{1, 2, 0, 0, {0}}).empty());
  EXPECT_TRUE(alone.on(decided_by_1(1, {0})).empty());
  EXPECT_TRUE(alone.on(decision_query{1}).empty());
  EXPECT_FALSE(alone.answer_in_place(pull{1, 0, 0, 0, {0}}));
  EXPECT_EQ(only<answer_decision_query>(alone.on(decision_query{1, 5, 1}))
              .last_decision.decided.size(),
            0u);
  // A step of the new one is another step with the same number. It answers no
  // pull of the training before.
  const auto pushed = alone.on(worker_id, push_in(5, 0, 0), {});
  EXPECT_EQ(only<apply>(pushed).update.version, 1u);
  EXPECT_EQ(only<answer_push>(pushed).pushed.training, 5u);
  EXPECT_EQ(count<answer_pull>(alone.on(worker_id, push_in(5, 0, 1), {})), 0u);
  const auto read = alone.on(worker_id, pull{1, 3, 0, 1, {0}, 5});
  EXPECT_EQ(only<answer_pull>(read).pulled.training, 5u);
  for (const std::uint32_t replica : {0, 1, 2})
    alone.on(worker_id, push_in(5, replica, 0, 1), {});
  const auto decided = alone.on(decided_by_1(0, {0, 1, 2}, 5));
  EXPECT_EQ(only<apply>(decided).update.contributions.size(), 3u);
  EXPECT_EQ(only<answer_decision>(decided).decided.training, 5u);
  // The sender knows of a training that this copy will learn of, too.
  EXPECT_TRUE(alone.on(worker_id, push_in(6, 0, 0), {}).empty());
}

TEST(ShardCopy, BeginsNoTrainingThatALaterOneHasReplaced) {
  shard_copy alone{primary_id, {}};
  alone.on_view(view(1, {}));
  const auto later = trained({{asynchronous}}, 2, 7);
  alone.on(begin_of(later), {});
  const auto is_refused = [](const shard_reaction& x) {
    return x.size() == 1
           && only<refuse_command>(x).why
                == command_refusal::impossible_training;
  };
  for (const std::uint64_t number : {6, 7})
    EXPECT_TRUE(is_refused(
      alone.on(begin_of(trained({{asynchronous}}, 1, number), number), {})));
  EXPECT_EQ(alone.current(), later);
  // Sent again, it is answered.
  EXPECT_EQ(count<answer_command>(alone.on(begin_of(later), {})), 1u);
}

/// The later one is before it in the log.
TEST(ShardCopy, RefusesATrainingInItsPlaceIfALaterOneHasBegun) {
  pair_of_copies both{{}};
  const auto later = trained({{asynchronous}}, 2, 7);
  std::vector<record> sent;
  for (const auto& one : {begin_of(later), begin_of(trained({}, 0, 6), 1)})
    sent.push_back(only<send_record>(both.primary.on(one, {})).record);
  both.answers.clear();
  for (const auto& one : sent)
    both.deliver(both.backup.on(one, {}));
  EXPECT_EQ(only<answer_command>(both.answers).id, (command_id{8, 0}));
  EXPECT_EQ(only<refuse_command>(both.answers).why,
            command_refusal::impossible_training);
  EXPECT_EQ(count<begin_training>(both.answers), 1u);
  for (const auto* one : {&both.primary, &both.backup})
    EXPECT_EQ(one->current(), later);
}

TEST(ShardCopy, CountsTrainingsInTheBytesOfItsLog) {
  pair_of_copies both{{}};
  const auto next = trained({{asynchronous}, {asynchronous}}, 1, 1);
  const auto sent = both.primary.on(begin_of(next), {});
  EXPECT_EQ(both.primary.log_bytes(), 2 * sizeof(trained_part));
  both.deliver(both.backup.on(only<send_record>(sent).record, {}));
  EXPECT_EQ(both.primary.log_bytes(), 0u);
}

/// The log has a push, a decision and a query of the training before behind the
/// command.
TEST(ShardCopy, LetsWhatIsBehindTheBeginOfATrainingHaveNoEffect) {
  pair_of_copies both{{{synchronous}}};
  const auto asked = both.primary.on(decision_query{1, 0, 1});
  both.deliver(both.backup.on(only<send_record>(asked).record, {}));
  std::vector<record> sent;
  const auto keep = [&](const shard_reaction& effects) {
    sent.push_back(only<send_record>(effects).record);
  };
  for (const std::uint32_t replica : {0, 1})
    keep(both.primary.on(worker_id, push_of(replica, 0), {}));
  for (std::size_t i = 0; i < 2; ++i)
    both.deliver(both.backup.on(sent[i], {}));
  keep(both.primary.on(begin_of(trained({{synchronous}}, 2, 1)), {}));
  keep(both.primary.on(worker_id, push_of(0, 1), {}));
  keep(both.primary.on(decided_by_1(0, {0, 1})));
  keep(both.primary.on(decision_query{1, 0, 4}));
  both.answers.clear();
  for (std::size_t i = 2; i < sent.size(); ++i)
    both.deliver(both.backup.on(sent[i], {}));
  EXPECT_EQ(result_of(both.answers), push_result::training_ended);
  EXPECT_EQ(count<answer_decision>(both.answers), 0u);
  EXPECT_EQ(count<answer_decision_query>(both.answers), 0u);
  EXPECT_EQ(count<apply>(both.answers), 0u);
  for (const auto* one : {&both.primary, &both.backup}) {
    EXPECT_EQ(one->current().number, 1u);
    EXPECT_EQ(one->contributions(0).version(), 0u);
    EXPECT_EQ(one->contributions(0).next_step(0), 0u);
    EXPECT_EQ(one->position().sequence, 7u);
  }
  // Steps with these numbers can be made in the new one, and decided by a chief
  // with a lower number.
  EXPECT_EQ(
    count<send_record>(both.primary.on(worker_id, push_in(1, 0, 1), {})), 1u);
  EXPECT_EQ(count<send_record>(both.primary.on(decision_query{1, 1, 2})), 1u);
}

TEST(ShardCopy, GivesANewBackupTheTraining) {
  shard_copy primary{primary_id, {}};
  primary.on_view(view(1, {}));
  const auto next = trained({{asynchronous}, {synchronous}}, 2, 3);
  primary.on(begin_of(next), {});
  primary.on(worker_id, push_in(3, 1, 0), {});
  primary.on(worker_id, push_in(3, 1, 0, 1), {});
  primary.on_view(view(2, {backup_id}));
  const auto made =
    only<send_snapshot>(primary.on(stored{2, backup_id, false, 0, false}));
  const auto take = [&](const snapshot& given) {
    shard_copy backup{backup_id, {}};
    backup.on_view(view(2, {backup_id}));
    const auto done = backup.on(given, made.gradients);
    EXPECT_NE(count<install_snapshot>(done), count<protocol_error>(done));
    return backup;
  };
  const auto backup = take(made.snapshot);
  EXPECT_EQ(backup.current(), next);
  EXPECT_EQ(backup.contributions(0).next_step(1), 1u);
  EXPECT_EQ(backup.contributions(1).state().waiting.size(), 1u);
  // Fewer parts or replicas, or too many, than the snapshot has states for.
  for (const auto& current :
       {trained({{asynchronous}}, 2, 3),
        trained({{asynchronous}, {synchronous}}, 1, 3),
        trained({{asynchronous}, {synchronous}}, max_replicas + 1, 3),
        trained({{asynchronous}, {synchronous}}, 2, 4), training{}}) {
    auto wrong = made.snapshot;
    wrong.current = current;
    EXPECT_EQ(take(wrong).current(), training{});
  }
  // A decision of another training, or of a replica that it does not have.
  for (const auto& last : {decision{2, 0, {0}, 2}, decision{2, 0, {2}, 3},
                           decision{2, ~std::uint64_t{0}, {0}, 3}}) {
    auto wrong = made.snapshot;
    wrong.parts[1] = {1, {{1, 0}, {1, 0}}, {}};
    if (last.step != 0)
      wrong.parts[1].version = 0;
    wrong.decided = {last};
    shard_copy backup{backup_id, {}};
    backup.on_view(view(2, {backup_id}));
    EXPECT_EQ(count<protocol_error>(backup.on(wrong, {})), 1u);
  }
}

TEST(ShardCopy, RefusesAnImpossibleTraining) {
  const auto expect_impossible = [](const command& given) {
    pair_of_copies both{{}};
    const auto refused = both.primary.on(given, {});
    ASSERT_EQ(refused.size(), 1u);
    EXPECT_EQ(only<refuse_command>(refused).why,
              command_refusal::impossible_training);
    const record sent{1, 1, {}, {}, 1, {given}};
    EXPECT_EQ(count<protocol_error>(both.backup.on(sent, {})), 1u);
  };
  auto twice = trained({{asynchronous}, {asynchronous}}, 2, 1);
  twice.parts[1].part = 0;
  const std::vector<consistency> many(max_clocks / max_replicas + 1);
  for (const auto& wrong : {trained({{asynchronous}}, 0, 1), twice,
                            trained({{synchronous, 0, 2}}, 2, 1),
                            trained({{asynchronous}}, max_replicas + 1, 1),
                            trained(many, max_replicas, 1)}) {
    EXPECT_FALSE(is_possible(wrong));
    expect_impossible(begin_of(wrong));
  }
  EXPECT_TRUE(is_possible(training{}));
  EXPECT_TRUE(is_possible(trained({{synchronous, 0, 1}}, 2)));
  EXPECT_TRUE(is_possible(trained(many, max_replicas / 2)));
  auto two = begin_of(trained({{asynchronous}}, 1, 1));
  two.begins.push_back(trained({{asynchronous}}, 1, 2));
  expect_impossible(two);
  auto read = begin_of(trained({{asynchronous}}, 1, 1));
  read.is_read = true;
  expect_impossible(read);
}

TEST(ShardCopy, HasNoStepForAReplicaOfATrainingWithoutItsParts) {
  shard_copy alone{primary_id, trained({}, 0)};
  alone.on_view(view(1, {}));
  alone.on(begin_of(trained({}, 2, 1)), {});
  EXPECT_EQ(only<answer_pull>(alone.on(worker_id, pull{1, 1, 1, 0, {}, 1}))
              .pulled.next_step,
            ~std::uint64_t{0});
}

TEST(ServerWorker, IgnoresAnswersOfAnotherTraining) {
  worker self{worker_id, 1, 5};
  self.on_view(0, {1, primary_id});
  self.on(0, serving{1});
  const push_id id{0, 0, 0};
  EXPECT_EQ(only<send_push>(self.push(0, id, 0, {}, {})).push.training, 5u);
  EXPECT_TRUE(self.on(0, pushed{1, id, push_result::accepted, 4}).empty());
  EXPECT_EQ(self.unacknowledged(), 1u);
  const auto asked = only<send_pull>(self.pull(0, 0, 0, {0})).pull;
  EXPECT_EQ(asked.training, 5u);
  EXPECT_TRUE(self.on(0, pulled{1, asked.number, 0, 0, {0}, 4}).empty());
  EXPECT_EQ(count<pull_done>(self.on(0, pulled{1, asked.number, 0, 0, {0}, 5})),
            1u);
  EXPECT_EQ(
    count<push_done>(self.on(0, pushed{1, id, push_result::accepted, 5})), 1u);
}

} // namespace

} // namespace troupe::parameter_server
