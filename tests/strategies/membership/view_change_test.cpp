#include "troupe/strategies/membership/view_change.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>

namespace troupe::view_change {

namespace {

member process(std::uint32_t task, std::uint64_t incarnation,
               std::vector<std::uint32_t> replicas) {
  return {task, incarnation, "127.0.0.1", 1000, std::move(replicas), 1};
}

/// A view of `count` processes with one replica each. The incarnation of task t
/// is 10 + t.
view first_view(std::uint32_t count) {
  view out{1, {}};
  for (std::uint32_t t = 0; t < count; ++t)
    out.members.push_back(process(t, 10 + t, {t}));
  return out;
}

std::vector<std::uint32_t> tasks_of(const view& x) {
  std::vector<std::uint32_t> out;
  for (const auto& one : x.members)
    out.push_back(one.task);
  return out;
}

using tasks = std::vector<std::uint32_t>;

// -- a job in memory ----------------------------------------------------------

/// Processes that exchange messages in the order in which they are sent. A
/// process that is not reachable loses its messages.
struct job {
  struct node {
    state_machine machine;
    process_id id;
    job_position position{};
    bool stopped = false, timer = false;
    bool defers_candidates = false; ///< None can join where it stops.
    std::vector<effect> seen{};     ///< All effects but messages and timers.
  };

  explicit job(std::uint32_t count) {
    for (std::uint32_t t = 0; t < count; ++t)
      add(state_machine{first_view(count), 10 + t}, {t, 10 + t});
  }

  void add(state_machine machine, process_id id) {
    nodes.emplace(id.incarnation, node{std::move(machine), id});
  }
  node& at(std::uint64_t incarnation) { return nodes.at(incarnation); }

  /// Performs the effects of a process.
  void perform(std::uint64_t incarnation, const reaction& effects) {
    auto& from = at(incarnation);
    for (const auto& one : effects) {
      if (const auto* x = std::get_if<send>(&one)) {
        ++sent[x->message.kind];
        if (!cut.contains(incarnation) && !cut.contains(x->receiver.incarnation)
            && !cut_paths.contains(
              std::minmax(incarnation, x->receiver.incarnation)))
          queue.push_back({from.id, x->receiver, x->message});
        continue;
      }
      if (std::holds_alternative<set_timer>(one)) {
        from.timer = true;
        continue;
      }
      from.seen.push_back(one);
      if (!std::holds_alternative<stop>(one))
        continue;
      if (from.defers_candidates)
        from.machine.forget_candidates();
      perform(incarnation, from.machine.on_stopped(from.position));
    }
  }

  /// A process asks all members that are reachable to join.
  void join(const member& candidate) {
    for (const auto& [incarnation, one] : nodes)
      if (!cut.contains(incarnation) && !one.machine.is_removed())
        perform(incarnation, at(incarnation).machine.on_join(candidate));
  }

  void run() {
    for (int n = 0; !queue.empty(); ++n) {
      ASSERT_LT(n, 10'000) << "the messages do not end";
      const auto one = queue.front();
      queue.pop_front();
      const auto to = nodes.find(one.receiver.incarnation);
      if (to != nodes.end())
        perform(to->first, to->second.machine.on(one.sender, one.content));
      else if (one.content.kind == message_kind::install)
        joined.push_back(one.content.proposals.front());
    }
  }

  const view& view_of(std::uint64_t incarnation) {
    return at(incarnation).machine.current();
  }
  const proposal* decision_of(std::uint64_t incarnation) {
    for (const auto& one : at(incarnation).seen)
      if (const auto* x = std::get_if<installed>(&one))
        return &x->decision;
    return nullptr;
  }
  template <class Effect>
  bool has(std::uint64_t incarnation) {
    return std::ranges::any_of(at(incarnation).seen, [](const effect& x) {
      return std::holds_alternative<Effect>(x);
    });
  }

  struct packet {
    process_id sender, receiver;
    message content;
  };
  std::map<std::uint64_t, node> nodes; ///< By incarnation.
  std::set<std::uint64_t> cut;         ///< Processes without connections.
  /// Pairs without a connection, the lower incarnation first.
  std::set<std::pair<std::uint64_t, std::uint64_t>> cut_paths;
  std::deque<packet> queue;
  std::map<message_kind, int> sent;
  std::vector<numbered_proposal> joined; ///< What unknown processes were told.
};

// -- losses -------------------------------------------------------------------

TEST(ViewChange, RepeatsAnAttemptForAProcessThatHadAnOlderView) {
  const proposal decided{
    {2, {process(1, 11, {0, 1}), process(2, 12, {2}), process(3, 13, {3})}},
    {},
    1};
  state_machine proposer{numbered_proposal{{1, 1}, decided}, 11};
  proposer.on_dead(13);
  message inquiry;
  inquiry.kind = message_kind::inquire;
  inquiry.view_id = 1;
  std::vector<message_kind> answers;
  for (const auto& x : proposer.on({2, 12}, inquiry))
    if (const auto* one = std::get_if<send>(&x)) {
      EXPECT_EQ(one->receiver.incarnation, 12u);
      answers.push_back(one->message.kind);
    }
  EXPECT_EQ(answers,
            (std::vector{message_kind::install, message_kind::prepare}));
}

TEST(ViewChange, SurvivorsTakeTheReplicasOfALostProcess) {
  job three{3};
  three.cut.insert(12);
  three.perform(10, three.at(10).machine.on_unreachable(12));
  three.run();
  for (const auto survivor : {10u, 11u}) {
    EXPECT_EQ(three.view_of(survivor).view_id, 2u);
    EXPECT_EQ(tasks_of(three.view_of(survivor)), (tasks{0, 1}));
    EXPECT_EQ(three.view_of(survivor).find(0)->replicas, (tasks{0, 2}));
    EXPECT_TRUE(three.has<stop>(survivor));
  }
}

TEST(ViewChange, ALossCostsTwoRoundTrips) {
  job four{4};
  four.cut.insert(13);
  four.perform(10, four.at(10).machine.on_dead(13));
  four.run();
  EXPECT_EQ(tasks_of(four.view_of(12)), (tasks{0, 1, 2}));
  using enum message_kind;
  EXPECT_EQ(
    four.sent,
    (std::map<message_kind, int>{
      {prepare, 2}, {promise, 2}, {propose, 2}, {accept, 2}, {install, 2}}));
}

TEST(ViewChange, TheLowestReachableMemberProposes) {
  job three{3};
  three.cut.insert(10);
  three.perform(12, three.at(12).machine.on_unreachable(10));
  three.run(); // 1 hears of it from 2
  three.perform(11, three.at(11).machine.on_unreachable(10));
  three.run();
  EXPECT_EQ(tasks_of(three.view_of(11)), (tasks{1, 2}));
  EXPECT_EQ(three.view_of(11), three.view_of(12));
}

TEST(ViewChange, TwoAtOnceAreLostInOneView) {
  job five{5};
  five.cut = {11, 13};
  five.perform(10, five.at(10).machine.on_unreachable(11));
  five.perform(10, five.at(10).machine.on_unreachable(13));
  five.run();
  EXPECT_EQ(tasks_of(five.view_of(10)), (tasks{0, 2, 4}));
  EXPECT_EQ(five.view_of(10).view_id, 2u);
}

TEST(ViewChange, ALossDuringAChangeIsPartOfIt) {
  job four{4};
  four.cut = {13};
  four.perform(10, four.at(10).machine.on_unreachable(13));
  four.cut.insert(12); // before it has promised
  four.run();
  EXPECT_EQ(four.view_of(10).view_id, 1u);
  four.perform(10, four.at(10).machine.on_dead(13));
  four.perform(10, four.at(10).machine.on_dead(12));
  four.run();
  EXPECT_EQ(tasks_of(four.view_of(10)), (tasks{0, 1}));
}

TEST(ViewChange, TheNextProposerFinishesWhatADeadOneHasBegun) {
  job three{3};
  three.cut.insert(12);
  three.perform(10, three.at(10).machine.on_unreachable(12));
  // Task 1 has accepted the view {0, 1}; then 0 dies, before its install.
  while (three.sent[message_kind::accept] == 0) {
    const auto one = three.queue.front();
    three.queue.pop_front();
    three.perform(
      one.receiver.incarnation,
      three.at(one.receiver.incarnation).machine.on(one.sender, one.content));
  }
  three.queue.clear();
  three.cut = {10};
  three.perform(12, three.at(12).machine.on_unreachable(10));
  three.perform(11, three.at(11).machine.on_dead(10));
  three.run();
  // It may have taken effect, so it comes first. Then 2 is not a member.
  EXPECT_TRUE(three.has<removed>(12));
  ASSERT_NE(three.decision_of(11), nullptr);
  EXPECT_EQ(tasks_of(three.decision_of(11)->next), (tasks{0, 1}));
  EXPECT_EQ(tasks_of(three.view_of(11)), (tasks{1}));
  EXPECT_EQ(three.view_of(11).view_id, 3u);
}

/// Members 1 and 2 cannot reach each other. Whichever was stopped for the
/// heartbeat timeout is excluded.
TEST(ViewChange, OfTwoThatCannotReachEachOtherTheSilentOneIsExcluded) {
  for (const bool is_first_silent : {false, true}) {
    job three{3};
    three.cut_paths.insert({11, 12});
    three.perform(11,
                  three.at(11).machine.on_unreachable(12, !is_first_silent));
    three.perform(12, three.at(12).machine.on_unreachable(11, is_first_silent));
    three.run();
    EXPECT_EQ(tasks_of(three.view_of(10)),
              is_first_silent ? (tasks{0, 2}) : (tasks{0, 1}));
    EXPECT_TRUE(three.has<removed>(is_first_silent ? 11 : 12));
  }
}

/// More members miss 1 than 3, although 3 was silent.
TEST(ViewChange, TheNumberOfMissingPathsComesBeforeSilence) {
  job four{4};
  four.cut_paths.insert({11, 12});
  four.cut_paths.insert({11, 13});
  four.perform(12, four.at(12).machine.on_unreachable(11));
  four.perform(11, four.at(11).machine.on_unreachable(13, true));
  four.run();
  EXPECT_EQ(tasks_of(four.view_of(10)), (tasks{0, 2, 3}));
}

/// The last report counts. Otherwise 1 would be excluded, although 2 has the
/// higher task.
TEST(ViewChange, ALossWithoutSilenceTakesBackThatAMemberWasSilent) {
  job three{3};
  three.cut_paths.insert({11, 12});
  auto& two = three.at(12).machine;
  two.on_unreachable(11, true); // its messages are lost
  two.on_unreachable(11, false);
  three.perform(11, three.at(11).machine.on_unreachable(12));
  three.perform(12, two.on_timeout());
  three.run();
  EXPECT_EQ(tasks_of(three.view_of(10)), (tasks{0, 1}));
}

/// A member that is not said to be unreachable is not silent either.
TEST(ViewChange, ASilentMemberThatIsReachedStays) {
  job three{3};
  message told;
  told.kind = message_kind::request;
  told.view_id = 1;
  told.known.silent = {11};
  three.perform(10, three.at(10).machine.on({2, 12}, told));
  three.run();
  EXPECT_EQ(three.view_of(10).view_id, 1u);
}

// -- majorities ---------------------------------------------------------------

TEST(ViewChange, HalfOfTheMembersAgreeOnNothing) {
  job two{2};
  two.cut.insert(11);
  two.perform(10, two.at(10).machine.on_unreachable(11));
  two.run();
  EXPECT_EQ(two.view_of(10).view_id, 1u);
  EXPECT_TRUE(two.has<no_majority>(10))
    << "no member is left that could answer";
}

TEST(ViewChange, TooFewMembersAreReportedOnlyWhenThoseThatCanAnswerHave) {
  job four{4};
  four.cut = {10, 11, 13}; // 12 reaches 13, whose answer is late
  four.perform(12, four.at(12).machine.on_unreachable(10));
  four.perform(12, four.at(12).machine.on_unreachable(11));
  EXPECT_FALSE(four.has<no_majority>(12));
  four.perform(12, four.at(12).machine.on_timeout());
  EXPECT_FALSE(four.has<no_majority>(12));
  four.cut.erase(13);
  four.perform(12, four.at(12).machine.on_timeout());
  four.run();
  EXPECT_TRUE(four.has<no_majority>(12));
}

TEST(ViewChange, AWitnessOfADeathReplacesTheMajority) {
  job two{2};
  two.cut.insert(10);
  two.perform(11, two.at(11).machine.on_unreachable(10));
  EXPECT_EQ(two.view_of(11).view_id, 1u);
  two.perform(11, two.at(11).machine.on_dead(10));
  EXPECT_EQ(tasks_of(two.view_of(11)), (tasks{1}));
  EXPECT_EQ(two.view_of(11).find(1)->replicas, (tasks{0, 1}));
}

TEST(ViewChange, FewerThanHalfAgreeOnNothingThoughTheOthersAreDead) {
  // The dead ones may have agreed on a view with a process that has joined.
  job three{3};
  three.cut = {10, 11};
  three.perform(12, three.at(12).machine.on_dead(10));
  three.perform(12, three.at(12).machine.on_dead(11));
  three.run();
  three.perform(12, three.at(12).machine.on_timeout());
  EXPECT_EQ(three.view_of(12).view_id, 1u);
  EXPECT_TRUE(three.has<no_majority>(12));
  // The launcher knows that there is no such process.
  three.perform(12, three.at(12).machine.on_survivors({{2, 12}}));
  EXPECT_EQ(tasks_of(three.view_of(12)), (tasks{2}));
}

TEST(ViewChange, MembersKnownToBeDeadAreNotJustLeftOutOfTheCount) {
  // Of five members two are dead and one is unreachable. The two others are a
  // majority of three, but the third may have agreed with the dead ones.
  job five{5};
  five.cut = {10, 11, 12};
  for (const auto survivor : {13u, 14u}) {
    five.perform(survivor, five.at(survivor).machine.on_dead(10));
    five.perform(survivor, five.at(survivor).machine.on_dead(11));
    five.perform(survivor, five.at(survivor).machine.on_unreachable(12));
  }
  five.run();
  five.perform(13, five.at(13).machine.on_timeout());
  five.run();
  EXPECT_EQ(five.view_of(13).view_id, 1u);
  EXPECT_TRUE(five.has<no_majority>(13));
  five.perform(13, five.at(13).machine.on_survivors({{3, 13}, {4, 14}}));
  five.run();
  EXPECT_EQ(tasks_of(five.view_of(14)), (tasks{3, 4}));
}

TEST(ViewChange, ASurvivorThatDoesNotVoteMayBelongToALaterView) {
  // Task 0 was started again. The dead ones may have admitted it.
  job three{3};
  three.cut = {10, 12};
  three.join(process(0, 77, {}));
  three.perform(11, three.at(11).machine.on_survivors({{1, 11}, {0, 77}}));
  EXPECT_EQ(three.view_of(11).view_id, 1u);
  // It has ended too.
  three.perform(11, three.at(11).machine.on_survivors({{1, 11}}));
  EXPECT_EQ(three.view_of(11).view_id, 2u);
}

TEST(ViewChange, ACandidateThatHasEndedIsForgotten) {
  for (const bool at_proposer : {true, false}) {
    job three{3};
    const std::uint64_t asked = at_proposer ? 10 : 11;
    // It waits, because task 2 has a member.
    three.join(process(2, 77, {}));
    three.perform(11, three.at(11).machine.on_reachable(10)); // spreads it
    three.run();
    three.perform(asked, three.at(asked).machine.on_unreachable(77));
    three.run();
    three.cut.insert(12);
    three.perform(10, three.at(10).machine.on_dead(12));
    three.run();
    EXPECT_EQ(three.view_of(10).find(2), nullptr);
  }
}

TEST(ViewChange, AReportOfTheSurvivorsIsVoidInTheNextView) {
  job two{2};
  two.cut = {11};
  two.perform(10, two.at(10).machine.on_survivors({{0, 10}}));
  ASSERT_EQ(two.view_of(10).view_id, 2u);
  two.join(process(1, 77, {}));
  ASSERT_EQ(tasks_of(two.view_of(10)), (tasks{0, 1}));
  // The process that joined may go on alone, so this one does not.
  two.perform(10, two.at(10).machine.on_unreachable(77));
  EXPECT_EQ(two.view_of(10).view_id, 3u);
}

/// The view that contains it has been proposed already.
TEST(ViewChange, ACandidateThatEndsBeforeItsViewTakesEffectIsExcludedNext) {
  job three{3};
  three.cut = {12};
  three.perform(10, three.at(10).machine.on_dead(12));
  three.run();
  ASSERT_EQ(tasks_of(three.view_of(10)), (tasks{0, 1}));
  three.join(process(2, 77, {}));
  while (three.sent[message_kind::propose] == 1) {
    ASSERT_FALSE(three.queue.empty());
    const auto one = three.queue.front();
    three.queue.pop_front();
    three.perform(
      one.receiver.incarnation,
      three.at(one.receiver.incarnation).machine.on(one.sender, one.content));
  }
  for (const auto member : {10u, 11u})
    three.perform(member, three.at(member).machine.on_dead(77));
  three.run();
  for (const auto member : {10u, 11u}) {
    EXPECT_EQ(tasks_of(three.view_of(member)), (tasks{0, 1}));
    EXPECT_EQ(three.view_of(member).view_id, 4u) << "77 was in view 3";
  }
}

/// 1 has not heard of the view in which 2 has joined when 0 is lost.
TEST(ViewChange, AMemberLearnsTheViewFromAProcessThatHasJoined) {
  job two{2};
  two.join(process(2, 77, {}));
  while (two.joined.empty()) {
    ASSERT_FALSE(two.queue.empty());
    const auto one = two.queue.front();
    two.queue.pop_front();
    if (one.content.kind != message_kind::install)
      two.perform(
        one.receiver.incarnation,
        two.at(one.receiver.incarnation).machine.on(one.sender, one.content));
    else if (one.receiver.incarnation == 77)
      two.joined.push_back(one.content.proposals.front());
  }
  two.queue.clear();
  two.add(state_machine{two.joined.front(), 77}, {2, 77});
  ASSERT_EQ(two.view_of(11).view_id, 1u);
  two.cut = {10};
  two.perform(11, two.at(11).machine.on_unreachable(10, true));
  two.run();
  two.perform(11, two.at(11).machine.on_unreachable(10, true));
  two.run();
  EXPECT_EQ(tasks_of(two.view_of(11)), (tasks{1, 2}));
  EXPECT_EQ(two.view_of(11), two.view_of(77));
}

TEST(ViewChange, AProcessThatWasExcludedLearnsIt) {
  job three{3};
  three.cut.insert(12);
  three.perform(10, three.at(10).machine.on_unreachable(12));
  three.run();
  EXPECT_FALSE(three.has<removed>(12));
  three.cut.clear();
  // It wakes up and suspects the others.
  three.perform(12, three.at(12).machine.on_unreachable(11));
  three.run();
  ASSERT_TRUE(three.has<removed>(12));
  EXPECT_TRUE(three.at(12).machine.is_removed());
  EXPECT_TRUE(three.at(12).machine.on_timeout().empty());
}

TEST(ViewChange, AnExcludedProcessHearsItFromThoseThatReachIt) {
  job three{3};
  three.cut_paths.insert({10, 12});
  three.perform(10, three.at(10).machine.on_unreachable(12));
  three.run();
  EXPECT_EQ(tasks_of(three.view_of(11)), (tasks{0, 1}));
  EXPECT_TRUE(three.has<removed>(12));
}

TEST(ViewChange, OfTwoMembersWithoutAPathTheLessConnectedOneGoes) {
  job four{4};
  // 1 cannot reach 3, and 2 cannot reach 3: 3 goes although 1 is lower.
  four.perform(11, four.at(11).machine.on_unreachable(13));
  four.perform(12, four.at(12).machine.on_unreachable(13));
  four.run();
  EXPECT_EQ(tasks_of(four.view_of(10)), (tasks{0, 1, 2}));
  EXPECT_TRUE(four.has<removed>(13));
}

/// Half of the members reach 0, which is no majority: the next one proposes,
/// also if 0 has begun an attempt.
TEST(ViewChange, AMemberThatOnlyHalfCanReachDoesNotPropose) {
  for (const bool has_begun : {false, true}) {
    job four{4};
    four.cut_paths.insert({10, 12});
    four.cut_paths.insert({10, 13});
    for (const std::uint64_t other : {12, 13})
      if (has_begun)
        four.perform(10, four.at(10).machine.on_unreachable(other));
    four.run();
    for (const std::uint64_t member : {12, 13})
      four.perform(member, four.at(member).machine.on_unreachable(10, true));
    four.run();
    for (const std::uint64_t member : {11, 12, 13})
      EXPECT_EQ(tasks_of(four.view_of(member)), (tasks{1, 2, 3})) << has_begun;
    EXPECT_TRUE(four.has<removed>(10)) << has_begun;
  }
}

TEST(ViewChange, OnATieTheHigherTaskGoes) {
  job three{3};
  three.perform(12, three.at(12).machine.on_unreachable(11));
  three.run();
  EXPECT_EQ(tasks_of(three.view_of(10)), (tasks{0, 1}));
}

// -- attempts -----------------------------------------------------------------

/// Returns the kinds of the messages in a reaction.
std::vector<message_kind> kinds_of(const reaction& effects) {
  std::vector<message_kind> out;
  for (const auto& one : effects)
    if (const auto* x = std::get_if<send>(&one))
      out.push_back(x->message.kind);
  return out;
}

using kinds = std::vector<message_kind>;

/// A proposal of task `proposer` that excludes task 2 of three.
numbered_proposal without_last(ballot number) {
  proposal out{{2, {process(0, 10, {0, 2}), process(1, 11, {1})}},
               {0, number.round}, // tells the proposals apart
               0};
  return {number, out};
}

TEST(ViewChange, AMemberRefusesAnOlderAttempt) {
  state_machine machine{first_view(3), 11};
  machine.on({2, 12}, {message_kind::prepare, 1, {5, 2}, {}, {}, {}});
  const message older{message_kind::propose,  1, {1, 0}, {},
                      {without_last({1, 0})}, {}};
  EXPECT_EQ(kinds_of(machine.on({0, 10}, older)),
            (kinds{message_kind::outdated}));
}

TEST(ViewChange, AProposerRepeatsTheNewestProposalThatWasAccepted) {
  state_machine machine{first_view(3), 10};
  machine.on_unreachable(12);
  machine.on_stopped(job_position{});
  // Both later attempts are older than the one of this process.
  machine.on({1, 11}, {message_kind::outdated, 1, {8, 1}, {}, {}, {}});
  machine.on_timeout();
  machine.on(
    {2, 12},
    {message_kind::promise, 1, {9, 0}, {}, {without_last({7, 1})}, {}});
  const auto effects = machine.on(
    {1, 11},
    {message_kind::promise, 1, {9, 0}, {}, {without_last({8, 1})}, {}});
  const auto* first = std::get_if<send>(&effects.front());
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->message.kind, message_kind::propose);
  EXPECT_EQ(first->message.proposals.front().proposal,
            without_last({8, 1}).proposal);
}

TEST(ViewChange, AProcessThatWasRemovedStillAnswersOlderViews) {
  job three{3};
  three.perform(12, three.at(12).machine.leave());
  three.run();
  ASSERT_TRUE(three.at(12).machine.is_removed());
  const message old{message_kind::request, 1, {}, {}, {}, {}};
  EXPECT_EQ(kinds_of(three.at(12).machine.on({1, 11}, old)),
            (kinds{message_kind::install}));
}

TEST(ViewChange, ADeadProcessSaysNothingMore) {
  state_machine machine{first_view(3), 11};
  machine.on_dead(10);
  const message late{message_kind::install,  2, {1, 0}, {},
                     {without_last({1, 0})}, {}};
  EXPECT_TRUE(machine.on({0, 10}, late).empty());
  EXPECT_EQ(machine.current().view_id, 1u);
  machine.on({2, 12}, late);
  EXPECT_EQ(machine.current().view_id, 2u);
}

TEST(ViewChange, AnImpossibleProposalIsIgnored) {
  state_machine machine{first_view(3), 11};
  for (const auto& spoil : std::vector<std::function<void(proposal&)>>{
         [](auto& x) { x.next.view_id = 3; },
         [](auto& x) { x.next.members.clear(); },
         [](auto& x) {
           x.next.members[0].replicas = {0, 1};
         },
         [](auto& x) { std::swap(x.next.members[0], x.next.members[1]); },
         [](auto& x) { x.source = 7; }}) {
    auto one = without_last({1, 0});
    spoil(one.proposal);
    EXPECT_TRUE(
      machine.on({0, 10}, {message_kind::propose, 1, {1, 0}, {}, {one}, {}})
        .empty());
  }
}

// -- leaves and joins ---------------------------------------------------------

TEST(ViewChange, AProcessThatLeavesIsToldThatItHasLeft) {
  job three{3};
  three.perform(12, three.at(12).machine.leave());
  three.run();
  EXPECT_EQ(tasks_of(three.view_of(10)), (tasks{0, 1}));
  const auto& last = three.at(12).seen.back();
  ASSERT_TRUE(std::holds_alternative<removed>(last));
  EXPECT_TRUE(std::get<removed>(last).left);
}

TEST(ViewChange, SeveralMembersLeaveWithOneView) {
  job four{4};
  // All have heard of both, because they agree on those that leave.
  for (const auto each : {10u, 11u, 12u, 13u})
    for (const auto leaver : {10u, 12u})
      four.perform(each, four.at(each).machine.on_leaving(leaver));
  four.run();
  EXPECT_EQ(tasks_of(four.view_of(11)), (tasks{1, 3}));
  EXPECT_EQ(four.view_of(13).view_id, 2u);
  EXPECT_TRUE(four.has<removed>(10));
  EXPECT_TRUE(four.has<removed>(12));
}

/// Otherwise a member that does not ask any more would be excluded later.
TEST(ViewChange, ARequestToLeaveIsVoidInTheNextView) {
  job two{2};
  two.perform(10, two.at(10).machine.leave());
  two.perform(11, two.at(11).machine.leave());
  two.run();
  EXPECT_EQ(two.view_of(10).view_id, 2u);
  two.join(process(2, 77, {}));
  two.run();
  ASSERT_EQ(two.joined.size(), 1u);
  two.add(state_machine{two.joined[0], 77}, {2, 77});
  two.run();
  EXPECT_EQ(tasks_of(two.view_of(10)), (tasks{0, 1, 2}));
  EXPECT_EQ(two.view_of(10).view_id, 3u);
  two.perform(10, two.at(10).machine.leave());
  two.run();
  EXPECT_EQ(tasks_of(two.view_of(11)), (tasks{1, 2}));
}

TEST(ViewChange, AProcessJoinsWithTheFirstInstall) {
  job two{2};
  two.join(process(2, 77, {}));
  two.run();
  ASSERT_EQ(two.joined.size(), 1u);
  EXPECT_EQ(tasks_of(two.joined[0].proposal.next), (tasks{0, 1, 2}));
  EXPECT_EQ(two.view_of(11), two.joined[0].proposal.next);
}

TEST(ViewChange, AProcessJoinsWhenItHasAskedAllMembers) {
  job three{3};
  for (const auto asked : {12u, 10u}) { // the proposer last
    three.perform(asked, three.at(asked).machine.on_join(process(3, 77, {})));
    three.run();
    EXPECT_EQ(three.view_of(10).view_id, 1u);
  }
  three.perform(11, three.at(11).machine.on_join(process(3, 77, {})));
  three.run();
  EXPECT_EQ(tasks_of(three.view_of(10)), (tasks{0, 1, 2, 3}));
}

TEST(ViewChange, NoProcessJoinsIfAMemberStopsWhereNoneCanBegin) {
  for (const auto deferring : {10u, 11u}) { // the proposer, and the other one
    job two{2};
    two.at(deferring).defers_candidates = true;
    two.join(process(2, 77, {}));
    two.run();
    EXPECT_EQ(two.joined.size(), 0u);
    EXPECT_EQ(tasks_of(two.view_of(10)), (tasks{0, 1}));
    two.at(deferring).defers_candidates = false;
    two.join(process(2, 77, {}));
    two.run();
    EXPECT_EQ(tasks_of(two.view_of(10)), (tasks{0, 1, 2}));
  }
}

TEST(ViewChange, OneProcessJoinsAtATime) {
  // Two candidates need not be connected to each other.
  job two{2};
  two.join(process(2, 77, {}));
  two.join(process(3, 78, {}));
  two.run();
  EXPECT_EQ(tasks_of(two.view_of(10)), (tasks{0, 1, 2}));
  ASSERT_EQ(two.joined.size(), 1u);
  two.add(state_machine{two.joined[0], 77}, {2, 77});
  two.join(process(3, 78, {}));
  two.run();
  EXPECT_EQ(tasks_of(two.view_of(77)), (tasks{0, 1, 2, 3}));
}

TEST(ViewChange, TheInstallOfAJoinIsSentAgainToACandidateThatAsks) {
  job two{2};
  two.join(process(2, 77, {}));
  two.run();
  ASSERT_EQ(two.joined.size(), 1u);
  two.join(process(2, 77, {}));
  two.run();
  EXPECT_EQ(two.joined.size(), 3u); // of both members
}

TEST(ViewChange, ARestartedProcessWaitsUntilItsPredecessorIsGone) {
  job three{3};
  three.join(process(2, 77, {}));
  three.run();
  EXPECT_EQ(three.view_of(10).view_id, 1u);
  three.cut.insert(12);
  three.perform(10, three.at(10).machine.on_dead(12));
  three.run();
  EXPECT_EQ(three.view_of(11).find(2)->incarnation, 77u);
  EXPECT_EQ(three.view_of(11).find(2)->replicas.size(), 1u);
}

TEST(ViewChange, ARestartedProcessDoesNotVote) {
  job three{3};
  three.cut = {11, 12};
  three.add(state_machine{first_view(3), 12}, {2, 99});
  three.perform(10, three.at(10).machine.on_unreachable(11));
  three.perform(10, three.at(10).machine.on_unreachable(12));
  message vote{message_kind::promise, 1, {1, 0}, {}, {}, {}};
  three.perform(10, three.at(10).machine.on({2, 99}, vote));
  EXPECT_EQ(three.sent[message_kind::propose], 0);
  three.perform(10, three.at(10).machine.on({2, 12}, vote));
  EXPECT_GT(three.sent[message_kind::propose], 0);
}

// -- positions ----------------------------------------------------------------

TEST(ViewChange, TheJobGoesOnWhereTheFirstProcessStopped) {
  job three{3};
  three.at(10).position = {4, 17};
  three.at(11).position = {4, 18}; // it has begun the update of step 17
  three.cut.insert(12);
  three.perform(10, three.at(10).machine.on_unreachable(12));
  three.run();
  ASSERT_NE(three.decision_of(10), nullptr);
  EXPECT_EQ(three.decision_of(10)->resume, (job_position{4, 18}));
  EXPECT_EQ(three.decision_of(10)->source, 1u);
}

TEST(ViewChange, OfTwoSourcesTheOneThatStaysIsTaken) {
  job three{3};
  for (const auto each : {10u, 11u, 12u})
    three.at(each).position = {4, 17};
  three.perform(10, three.at(10).machine.leave());
  three.run();
  ASSERT_NE(three.decision_of(11), nullptr);
  EXPECT_EQ(three.decision_of(11)->source, 1u);
}

TEST(ViewChange, AMemberWithoutTheStateIsNoSource) {
  // Task 1 has joined, and the other one dies before it has copied the state.
  state_machine machine{first_view(2), 11};
  machine.on_dead(10);
  const auto effects = machine.on_stopped(std::nullopt);
  EXPECT_TRUE(std::ranges::any_of(effects, [](const effect& x) {
    return std::holds_alternative<state_lost>(x);
  }));
  EXPECT_EQ(machine.current().view_id, 1u);
}

TEST(ViewChange, AHostThatIsOnlyUnreachableHasNotLostTheState) {
  view with_evaluators = first_view(3);
  for (const std::size_t i : {0, 1}) {
    with_evaluators.members[i].replicas.clear();
    with_evaluators.members[i].capacity = 0;
  }
  with_evaluators.members[2].replicas = {0, 1, 2};
  state_machine machine{with_evaluators, 10};
  machine.on_unreachable(12);
  machine.on_stopped(job_position{});
  message promised;
  promised.kind = message_kind::promise;
  promised.view_id = 1;
  promised.number = {1, 0};
  EXPECT_TRUE(machine.on({1, 11}, promised).empty());
  machine.on_reachable(12);
  promised.position = {{3, 5}};
  promised.known.unreachable.clear();
  EXPECT_EQ(kinds_of(machine.on({2, 12}, promised)),
            (kinds{message_kind::propose, message_kind::propose}));
}

TEST(ViewChange, TheLastHostDoesNotLeave) {
  job two{2};
  two.perform(10, two.at(10).machine.leave());
  two.run();
  two.perform(11, two.at(11).machine.leave());
  two.run();
  EXPECT_EQ(tasks_of(two.view_of(11)), (tasks{1}));
  EXPECT_TRUE(two.has<removed>(10));
  EXPECT_FALSE(two.has<removed>(11));
  EXPECT_FALSE(two.has<state_lost>(11));
}

TEST(ViewChange, NoProcessLeavesIfAllWantTo) {
  job two{2};
  two.perform(10, two.at(10).machine.leave());
  two.perform(11, two.at(11).machine.leave());
  two.run();
  EXPECT_EQ(tasks_of(two.view_of(10)), (tasks{0, 1}));
  EXPECT_EQ(tasks_of(two.view_of(11)), (tasks{0, 1}));
}

TEST(ViewChange, WithoutAHostTheStateIsLost) {
  view with_evaluator{1, {process(0, 10, {0}), process(1, 11, {})}};
  with_evaluator.members[1].capacity = 0;
  state_machine machine{with_evaluator, 11};
  auto effects = machine.on_dead(10);
  ASSERT_TRUE(std::holds_alternative<stop>(effects.front()));
  effects = machine.on_stopped({});
  EXPECT_TRUE(std::ranges::any_of(effects, [](const effect& x) {
    return std::holds_alternative<state_lost>(x);
  }));
}

TEST(ViewChange, AHostThatStillCopiesTheStateCannotGoOnAlone) {
  job all{2};
  all.perform(11, all.at(11).machine.on_dead(10)); // it goes on alone
  EXPECT_EQ(tasks_of(all.view_of(11)), tasks{1});

  state_machine copying{first_view(2), 11};
  copying.on_dead(10);
  const auto effects = copying.on_stopped({});
  EXPECT_TRUE(std::ranges::any_of(effects, [](const effect& x) {
    return std::holds_alternative<state_lost>(x);
  }));
}

// -- reasons ------------------------------------------------------------------

TEST(ViewChange, KnowsItsReasonsAndWhoHasBegunIt) {
  state_machine machine{first_view(4), 13};
  EXPECT_FALSE(machine.reasons().proposer);
  machine.on_unreachable(12);
  message prepare;
  prepare.kind = message_kind::prepare;
  prepare.view_id = 1;
  prepare.number = {1, 1};
  prepare.known.unreachable = {10};
  prepare.known.dead = {10};
  prepare.known.leaving = {11};
  prepare.known.joining = {process(0, 20, {})};
  prepare.known.renewal = true;
  machine.on({1, 11}, prepare);
  const auto known = machine.reasons();
  EXPECT_EQ(known.proposer, 1u);
  using pairs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
  EXPECT_EQ(known.unreachable, (pairs{{1, 0}, {3, 2}}));
  EXPECT_EQ(known.dead, tasks{0});
  EXPECT_EQ(known.leaving, tasks{1});
  EXPECT_EQ(known.joining, tasks{0});
  EXPECT_EQ(known.without_lanes, tasks{});
  EXPECT_TRUE(known.renewal);
}

TEST(ViewChange, KnowsToWhomItHasNoLanes) {
  state_machine machine{first_view(3), 10};
  machine.on_no_lanes(12, false);
  EXPECT_EQ(machine.reasons().without_lanes, tasks{2});
  EXPECT_EQ(machine.reasons().proposer, 0u);
}

// -- renewals -----------------------------------------------------------------

/// Expects that all processes have the next view, with the same members and
/// replicas as the first one, and that their replicas have stopped.
void expect_renewed(job& all, std::uint64_t view_id = 2) {
  for (auto& [incarnation, x] : all.nodes) {
    EXPECT_EQ(x.machine.current().view_id, view_id);
    EXPECT_EQ(x.machine.current().members,
              first_view(std::uint32_t(all.nodes.size())).members);
    EXPECT_FALSE(x.machine.wants_renewal());
    EXPECT_TRUE(all.has<stop>(incarnation));
  }
}

TEST(ViewRenewal, KeepsMembersAndReplicasIfOneProcessWantsIt) {
  for (const auto asker : {10u, 11u, 12u}) {
    job three{3};
    three.at(11).position = {4, 7};
    three.perform(asker, three.at(asker).machine.on_renewal_wanted());
    three.run();
    expect_renewed(three);
    EXPECT_EQ(three.decision_of(10)->resume, (job_position{4, 7}));
    EXPECT_EQ(three.decision_of(10)->source, 1u);
  }
}

TEST(ViewRenewal, TwoAtOnceAreOneAndALaterOneIsAnother) {
  job three{3};
  three.perform(12, three.at(12).machine.on_renewal_wanted());
  three.perform(11, three.at(11).machine.on_renewal_wanted());
  three.perform(12, three.at(12).machine.on_renewal_wanted());
  three.run();
  expect_renewed(three);
  three.perform(12, three.at(12).machine.on_renewal_wanted());
  three.run();
  expect_renewed(three, 3);
}

TEST(ViewRenewal, OfAnOlderViewHasNoEffect) {
  job three{3};
  message late;
  for (const auto& x : three.at(12).machine.on_renewal_wanted())
    if (const auto* one = std::get_if<send>(&x))
      late = one->message;
  ASSERT_TRUE(late.known.renewal);
  three.perform(10, three.at(10).machine.on_renewal_wanted());
  three.run();
  three.perform(10, three.at(10).machine.on({2, 12}, late));
  three.run();
  expect_renewed(three);
}

TEST(ViewRenewal, WaitsForAMemberThatIsBeingConnectedAgain) {
  for (const auto asker : {10u, 11u, 12u}) { // 12 is cut
    job three{3};
    three.cut = {12};
    three.perform(asker, three.at(asker).machine.on_renewal_wanted());
    three.run();
    EXPECT_EQ(three.view_of(11).view_id, 1u) << "12 does not answer yet";
    three.cut.clear();
    for (const auto x : {10u, 11u}) {
      three.perform(x, three.at(x).machine.on_reachable(12));
      three.perform(12, three.at(12).machine.on_reachable(x));
    }
    three.run();
    expect_renewed(three);
  }
}

TEST(ViewRenewal, IsWithoutAMemberThatDiesMeanwhile) {
  job four{4};
  four.cut = {13};
  four.perform(12, four.at(12).machine.on_renewal_wanted());
  four.run();
  EXPECT_EQ(four.view_of(10).view_id, 1u);
  four.perform(10, four.at(10).machine.on_dead(13));
  four.run();
  for (const auto x : {10u, 11u, 12u}) {
    EXPECT_EQ(tasks_of(four.view_of(x)), (tasks{0, 1, 2}));
    EXPECT_EQ(four.view_of(x).view_id, 2u);
    EXPECT_FALSE(four.at(x).machine.wants_renewal());
  }
}

TEST(ViewRenewal, IsPartOfTheChangeForALoss) {
  job four{4};
  four.cut = {10};
  for (const auto x : {11u, 12u, 13u})
    four.perform(x, four.at(x).machine.on_dead(10));
  four.perform(13, four.at(13).machine.on_renewal_wanted());
  four.run();
  for (const auto x : {11u, 12u, 13u}) {
    EXPECT_EQ(tasks_of(four.view_of(x)), (tasks{1, 2, 3}));
    EXPECT_EQ(four.view_of(x).view_id, 2u);
  }
}

// -- lanes that cannot be opened ----------------------------------------------

TEST(MissingLanes, ExcludeTheOneThatHasJoinedLater) {
  for (const std::uint64_t newer : {10, 11}) {
    job two{2};
    const auto older = newer == 10 ? 11 : 10;
    two.perform(older, two.at(older).machine.on_no_lanes(newer, true));
    two.run();
    EXPECT_EQ(two.view_of(older).view_id, 2u);
    EXPECT_EQ(two.view_of(older).members.size(), 1u);
    EXPECT_TRUE(
      two.view_of(older).find(static_cast<std::uint32_t>(older - 10)));
    EXPECT_TRUE(two.has<removed>(newer));
  }
}

TEST(MissingLanes, ExcludeTheHigherTaskIfBothAreOriginal) {
  for (const std::uint64_t reporter : {10, 12}) {
    job three{3};
    three.perform(reporter, three.at(reporter).machine.on_no_lanes(
                              reporter == 10 ? 12 : 10, false));
    three.run();
    EXPECT_EQ(tasks_of(three.view_of(10)), (tasks{0, 1}));
    EXPECT_EQ(tasks_of(three.view_of(11)), (tasks{0, 1}));
    EXPECT_TRUE(three.has<removed>(12));
  }
}

TEST(MissingLanes, ExcludeTheOneThatMoreMembersCannotReach) {
  job three{3};
  three.perform(11, three.at(11).machine.on_no_lanes(10, false));
  three.perform(12, three.at(12).machine.on_no_lanes(10, false));
  three.run();
  EXPECT_EQ(tasks_of(three.view_of(11)), (tasks{1, 2}));
  EXPECT_EQ(tasks_of(three.view_of(12)), (tasks{1, 2}));
  EXPECT_TRUE(three.has<removed>(10));
}

TEST(MissingLanes, AreForgottenInTheNextView) {
  job three{3};
  three.perform(12, three.at(12).machine.on_renewal_wanted());
  three.perform(12, three.at(12).machine.on_no_lanes(99, false)); // no member
  three.run();
  EXPECT_EQ(tasks_of(three.view_of(12)), (tasks{0, 1, 2}));
  three.perform(11, three.at(11).machine.on_no_lanes(12, false));
  three.run();
  EXPECT_EQ(tasks_of(three.view_of(10)), (tasks{0, 1}));
  three.perform(11, three.at(11).machine.on_renewal_wanted());
  three.run();
  EXPECT_EQ(three.view_of(10).view_id, 4u);
  EXPECT_EQ(tasks_of(three.view_of(10)), (tasks{0, 1}));
}

TEST(ViewRenewal, NeedsAMajority) {
  job three{3};
  three.cut = {11, 12};
  three.perform(10, three.at(10).machine.on_renewal_wanted());
  three.perform(10, three.at(10).machine.on_unreachable(11));
  three.perform(10, three.at(10).machine.on_unreachable(12));
  three.run();
  three.perform(10, three.at(10).machine.on_timeout());
  EXPECT_TRUE(three.has<no_majority>(10));
  EXPECT_EQ(three.view_of(10).view_id, 1u);
}

} // namespace

} // namespace troupe::view_change
