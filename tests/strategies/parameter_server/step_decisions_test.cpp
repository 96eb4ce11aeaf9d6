#include "troupe/strategies/parameter_server/step_decisions.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

// Single steps of the protocol. Jobs whose chief is lost under faults are in
// random_jobs_test.cpp.

namespace troupe::parameter_server {

namespace {

using ids = std::vector<std::uint32_t>;

constexpr std::uint64_t this_chief = 7;

/// Answers to this chief, of the first training.
last_decision answer(std::uint64_t view_id, std::vector<decision> found = {}) {
  return {view_id, std::move(found), 0, this_chief, this_chief};
}
decided done(std::uint64_t view_id, std::uint64_t step) {
  return {view_id, step, 0, this_chief, this_chief};
}

/// A chief of two shards, in view 1.
step_decisions chief_of(std::uint32_t replicas, std::uint32_t backup_workers) {
  step_decisions out{2, replicas, backup_workers, 0, this_chief};
  out.on_view(0, {1, 10});
  out.on_view(1, {1, 11});
  return out;
}

/// A chief that has learned that no step is decided.
step_decisions first_chief_of(std::uint32_t replicas,
                              std::uint32_t backup_workers) {
  auto out = chief_of(replicas, backup_workers);
  for (const std::uint32_t shard : {0, 1})
    out.on(shard, answer(1));
  return out;
}

/// Says that a step is applied with its number as the factor.
decision_reaction answered(step_decisions& chief,
                           const decision_reaction& asked) {
  const auto& x = std::get<ask_factors>(asked.at(0));
  return chief.decide(x.step, {false, 0, float(x.step)});
}

/// Returns the decision that a reaction sends to all of these shards, and to no
/// other one, perhaps when the chief knows how it is applied.
decision sent_to(const ids& shards, step_decisions& chief,
                 const decision_reaction& all) {
  if (all.size() == 1 && std::holds_alternative<ask_factors>(all[0]))
    return sent_to(shards, chief, answered(chief, all));
  ids found;
  decision out;
  for (const auto& one : all) {
    const auto& x = std::get<send_decision>(one);
    found.push_back(x.shard);
    EXPECT_EQ(x.primary, 10 + x.shard);
    EXPECT_TRUE(found.size() == 1
                || (out.step == x.decision.step
                    && out.contributors == x.decision.contributors));
    out = x.decision;
  }
  EXPECT_EQ(found, shards);
  return out;
}

bool is_error(const decision_reaction& all) {
  return all.size() == 1 && std::holds_alternative<protocol_error>(all[0]);
}

TEST(StepDecisions, AsksAllShardsForTheLastDecisionBeforeItDecides) {
  step_decisions chief{2, 1, 0, 0, this_chief};
  EXPECT_TRUE(chief.on_timeout().empty()); // there is no view yet
  EXPECT_EQ(chief.on_view(0, {4, 10}).size(), 1u);
  const auto sent = chief.on_view(1, {4, 11});
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(std::get<send_decision_query>(sent[0]).primary, 11u);
  EXPECT_EQ(std::get<send_decision_query>(sent[0]).decision_query.view_id, 4u);
  EXPECT_TRUE(chief.on(contributed{0, 1}).empty());
  EXPECT_TRUE(chief.on(0, answer(4)).empty());
  EXPECT_TRUE(chief.on(0, answer(4)).empty()); // repeated
  EXPECT_TRUE(chief.on(1, answer(3)).empty()); // of another view
  EXPECT_TRUE(chief.on(2, answer(4)).empty()); // of no shard
  EXPECT_TRUE(chief.queries());
  // Only the shard that has not answered is asked again.
  const auto again = chief.on_timeout();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(std::get<send_decision_query>(again[0]).shard, 1u);
  const auto first = sent_to({0, 1}, chief, chief.on(1, answer(4)));
  EXPECT_EQ(first.step, 0u);
  EXPECT_EQ(first.contributors, ids{0});
}

TEST(StepDecisions, TakesTheFirstContributionsThatSuffice) {
  auto chief = first_chief_of(4, 2);
  EXPECT_TRUE(chief.on(contributed{3, 1}).empty());
  EXPECT_TRUE(chief.on(contributed{3, 1}).empty()); // repeated
  const auto first = sent_to({0, 1}, chief, chief.on(contributed{1, 1}));
  EXPECT_EQ(first.contributors, (ids{1, 3}));
  // Those that are late do not count, and older reports change nothing.
  EXPECT_TRUE(chief.on(contributed{0, 2}).empty());
  EXPECT_TRUE(chief.on(contributed{2, 2}).empty());
  EXPECT_TRUE(chief.on(contributed{1, 2}).empty());
  EXPECT_TRUE(chief.on(contributed{0, 1}).empty());
  chief.on(0, done(1, 0));
  EXPECT_EQ(sent_to({0, 1}, chief, chief.on(1, done(1, 0))).contributors,
            (ids{0, 2}));
}

TEST(StepDecisions, WaitsForAllShardsBeforeTheNextStep) {
  auto chief = first_chief_of(1, 0);
  EXPECT_EQ(sent_to({0, 1}, chief, chief.on(contributed{0, 3})).step, 0u);
  EXPECT_TRUE(chief.on(1, done(1, 0)).empty());
  EXPECT_TRUE(chief.on(1, done(1, 0)).empty()); // repeated
  EXPECT_TRUE(chief.on(0, done(0, 0)).empty()); // of another view
  EXPECT_TRUE(chief.on(0, done(1, 1)).empty()); // on another step
  EXPECT_EQ(sent_to({0}, chief, chief.on_timeout()).step, 0u);
  EXPECT_EQ(sent_to({0, 1}, chief, chief.on(0, done(1, 0))).step, 1u);
}

TEST(StepDecisions, RepeatsTheNewestDecisionThatItFinds) {
  auto chief = chief_of(2, 1);
  EXPECT_TRUE(chief.on(contributed{0, 7}).empty());
  EXPECT_TRUE(chief.on(0, answer(1, {{0, 5, {0}}})).empty());
  const auto found =
    sent_to({0, 1}, chief, chief.on(1, answer(1, {{0, 6, {1}}})));
  EXPECT_EQ(found.view_id, 1u);
  EXPECT_EQ(found.step, 6u);
  EXPECT_EQ(found.contributors, ids{1});
  // Replica 0 has contributed to step 6, but not to step 7.
  chief.on(0, done(1, 6));
  EXPECT_TRUE(chief.on(1, done(1, 6)).empty());
  EXPECT_EQ(chief.next_step(), 7u);
  EXPECT_EQ(sent_to({0, 1}, chief, chief.on(contributed{0, 8})).step, 7u);
}

TEST(StepDecisions, SendsAgainInANewViewWhatWasNotAnswered) {
  auto chief = chief_of(1, 0);
  chief.on(0, answer(1));
  EXPECT_TRUE(chief.on_view(1, {1, 11}).empty());
  EXPECT_TRUE(chief.on_view(0, {3, 12}).empty()); // it has answered
  const auto asked = chief.on_view(1, {2, 11});
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(std::get<send_decision_query>(asked[0]).decision_query.view_id, 2u);
  EXPECT_TRUE(chief.on(1, answer(1)).empty()); // of an older view
  chief.on(1, answer(2));
  chief.on_view(0, {4, 10});
  EXPECT_EQ(sent_to({0, 1}, chief, chief.on(contributed{0, 1})).view_id, 2u);
  chief.on(0, done(4, 0));
  EXPECT_EQ(sent_to({1}, chief, chief.on_view(1, {3, 11})).view_id, 3u);
  EXPECT_THROW(chief.on_view(2, {1, 10}), std::out_of_range);
}

TEST(StepDecisions, RejectsWhatCannotBe) {
  auto chief = chief_of(2, 1);
  EXPECT_TRUE(is_error(chief.on(contributed{2, 1})));
  EXPECT_TRUE(chief.on(0, answer(1, {{0, 5, {0}}})).empty());
  const auto all = chief.on(1, answer(1, {{0, 5, {1}}}));
  ASSERT_FALSE(all.empty());
  EXPECT_TRUE(std::holds_alternative<protocol_error>(all[0]));
  EXPECT_THROW((step_decisions{1, 2, 2, 0, 1}), std::logic_error);
  EXPECT_THROW((step_decisions{0, 2, 1, 0, 1}), std::logic_error);
  EXPECT_THROW((step_decisions{1, 2, 1, 0, 0}), std::logic_error);
}

TEST(StepDecisions, AreSentWhenTheHostHasSaidHowTheyAreApplied) {
  auto chief = first_chief_of(2, 1);
  const auto asked = chief.on(contributed{1, 3});
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(std::get<ask_factors>(asked[0]).step, 0u);
  EXPECT_EQ(std::get<ask_factors>(asked[0]).contributors, ids{1});
  EXPECT_TRUE(chief.on_timeout().empty());
  EXPECT_TRUE(chief.on(contributed{0, 1}).empty()); // too late to count
  EXPECT_TRUE(chief.decide(1, {}).empty());         // another step
  const update_factors factors{true, 0.5F, 2};
  const auto sent = sent_to({0, 1}, chief, chief.decide(0, factors));
  EXPECT_EQ(sent.contributors, ids{1});
  EXPECT_EQ(sent.factors, factors);
  EXPECT_TRUE(chief.decide(0, {}).empty()); // it is decided
  // The next chief finds it, and sends it as it is.
  auto next = chief_of(2, 1);
  next.on(0, answer(1, {sent}));
  EXPECT_EQ(sent_to({0, 1}, next, next.on(1, answer(1))).factors, factors);
}

TEST(StepDecisions, EndWhenALaterChiefHasAskedAShard) {
  auto asks = chief_of(1, 0);
  EXPECT_TRUE(
    asks.on(0, last_decision{1, {}, 0, this_chief - 1, this_chief + 1})
      .empty());
  const auto told =
    asks.on(0, last_decision{1, {}, 0, this_chief, this_chief + 1});
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<chief_superseded>(told[0]));
  EXPECT_TRUE(asks.is_superseded());
  EXPECT_TRUE(asks.on_timeout().empty());
  EXPECT_TRUE(asks.on_view(0, {2, 10}).empty());

  auto decides = first_chief_of(1, 0);
  EXPECT_EQ(sent_to({0, 1}, decides, decides.on(contributed{0, 2})).chief,
            this_chief);
  decides.on(0, done(1, 0));
  EXPECT_TRUE(
    decides.on(1, decided{1, 0, 0, this_chief - 1, this_chief}).empty());
  EXPECT_FALSE(decides.is_superseded());
  EXPECT_EQ(decides.decided_steps(), 0u); // one shard has not the decision
  EXPECT_EQ(decides.on(1, decided{1, 0, 0, this_chief, this_chief + 1}).size(),
            1u);
  EXPECT_TRUE(decides.is_superseded());
  EXPECT_EQ(decides.decided_steps(), 0u);
  EXPECT_TRUE(
    decides.on(1, decided{1, 0, 0, this_chief, this_chief + 1}).empty());
  EXPECT_TRUE(decides.on_timeout().empty());
}

TEST(StepDecisions, IgnoreMessagesOfAnotherTraining) {
  step_decisions chief{1, 1, 0, 5, this_chief};
  chief.on_view(0, {1, 10});
  EXPECT_TRUE(
    chief.on(0, last_decision{1, {}, 4, this_chief, this_chief}).empty());
  EXPECT_TRUE(chief.queries());
  step_decisions misled = chief;
  EXPECT_TRUE(is_error(misled.on(
    0, last_decision{1, {decision{1, 3, {0}, 4}}, 5, this_chief, this_chief})));
  EXPECT_TRUE(
    chief.on(0, last_decision{1, {}, 5, this_chief, this_chief}).empty());
  EXPECT_FALSE(chief.queries());
  EXPECT_TRUE(chief.on(contributed{0, 1, 4}).empty());
  const auto sent = chief.on(contributed{0, 2, 5});
  EXPECT_EQ(sent_to({0}, chief, sent).training, 5u);
  EXPECT_TRUE(chief.on(0, decided{1, 0, 4, this_chief, this_chief}).empty());
  EXPECT_EQ(
    sent_to({0}, chief, chief.on(0, decided{1, 0, 5, this_chief, this_chief}))
      .step,
    1u);
}

} // namespace

} // namespace troupe::parameter_server
