#include "troupe/actors/group/completion_queue.hpp"
#include "troupe/actors/replica/step_registry.hpp"

#include <gtest/gtest.h>

// The queue between the roles of a group and its caller. All notifications are
// in the queue before the caller reads it, so no test waits.

namespace troupe {
namespace {

using namespace std::chrono_literals;

work_desk new_desk() {
  return work_desk{std::make_shared<sleeping_waiter>()};
}

/// The committed steps, and how the run ended.
std::string heard(work_desk& desk) {
  std::string text;
  try {
    const auto next = desk.follow(
      [&](const commit_record& x, bool more) {
        text += std::to_string(x.step) + (more ? ", " : "; ");
      },
      0ms);
    return text + (next ? "next " + std::to_string(*next) : "nothing yet");
  } catch (const failure& e) {
    return text + to_string(e.code) + ": " + e.what();
  }
}

void commit(work_desk& desk, std::uint64_t run, std::uint64_t step) {
  desk.committed(run, commit_record{step, 1, {0}, {}});
}

TEST(CompletionQueue, DeliversCommitsInOrderAndThenTheEnd) {
  auto desk = new_desk();
  const auto run = desk.begin();
  for (const std::uint64_t step : {4, 5, 6})
    commit(desk, run, step);
  desk.ended(run, 7);
  EXPECT_EQ(heard(desk), "4, 5, 6; next 7");
}

TEST(CompletionQueue, IgnoresNotificationsOfAnotherRun) {
  auto desk = new_desk();
  const auto first = desk.begin();
  commit(desk, first, 1);
  desk.ended(first, 2);
  EXPECT_EQ(heard(desk), "1; next 2");
  const auto second = desk.begin();
  EXPECT_EQ(second, first + 1);
  commit(desk, first, 8);
  desk.ended(first, 9);
  desk.given_up(first, ec::invalid, "too late");
  EXPECT_EQ(heard(desk), "nothing yet");
}

TEST(CompletionQueue, BeginsEachRunEmpty) {
  auto desk = new_desk();
  const auto first = desk.begin();
  desk.given_up(first, ec::stalled, "no event");
  EXPECT_EQ(heard(desk), "stalled: no event");
  const auto second = desk.begin();
  EXPECT_EQ(heard(desk), "nothing yet");
  commit(desk, second, 3);
  const auto third = desk.begin();
  desk.ended(third, 5);
  EXPECT_EQ(heard(desk), "next 5");
}

TEST(CompletionQueue, KeepsTheFirstError) {
  auto desk = new_desk();
  const auto run = desk.begin();
  desk.given_up(run, ec::stalled, "the first");
  desk.given_up(run, ec::invalid, "the second");
  desk.no_more(ec::cancelled, "the third");
  EXPECT_EQ(heard(desk), "stalled: the first");
  EXPECT_THROW(desk.begin(), failure);
}

TEST(CompletionQueue, AllowsOneRunOrTaskAtATime) {
  auto desk = new_desk();
  desk.begin();
  EXPECT_THROW(desk.begin(), std::logic_error);
  EXPECT_THROW(desk.begin_visits({0, 1}), std::logic_error);
  EXPECT_EQ(heard(desk), "nothing yet"); // the run times out
  const auto visit = desk.begin_visits({0, 1});
  EXPECT_THROW(desk.begin(), std::logic_error);
  EXPECT_THROW(desk.begin_visits({0, 1}), std::logic_error);
  desk.visited(visit, 0, "");
  desk.follow_visits(0ms);
  EXPECT_NO_THROW(desk.begin());
}

TEST(CompletionQueue, EndsWithItsChief) {
  auto desk = new_desk();
  desk.begin();
  EXPECT_FALSE(desk.chief_ended());
  desk.one_ended(false);
  EXPECT_EQ(heard(desk), "nothing yet") << "that was another role";
  EXPECT_FALSE(desk.await_ends(2, 0ms));
  desk.one_ended(true);
  EXPECT_TRUE(desk.chief_ended());
  EXPECT_TRUE(desk.await_ends(2, 0ms));
  EXPECT_FALSE(desk.await_ends(3, 0ms));
  EXPECT_THROW(desk.begin(), failure);
}

TEST(CompletionQueue, EndsAnActiveRunWithItsChief) {
  auto desk = new_desk();
  desk.begin();
  desk.one_ended(true);
  EXPECT_EQ(heard(desk), "cancelled: " + std::string{chief_is_gone});
}

TEST(CompletionQueue, PrefersTheEndOfARunToTheEndOfItsChief) {
  auto desk = new_desk();
  const auto run = desk.begin();
  desk.ended(run, 4);
  desk.one_ended(true);
  EXPECT_EQ(heard(desk), "next 4");
}

TEST(CompletionQueue, NamesAReplicaThatDoesNotRunATask) {
  auto desk = new_desk();
  const auto old = desk.begin_visits({4, 2});
  desk.visited(old, 4, "");
  try {
    desk.follow_visits(0ms);
    ADD_FAILURE() << "no failure";
  } catch (const failure& e) {
    EXPECT_EQ(e.code, ec::stalled);
    EXPECT_STREQ(e.what(), "for 0 ms replica 5 did not run the function "
                           "given to for_each");
  }
  const auto visit = desk.begin_visits({4, 2});
  for (const std::uint32_t r : {4, 5})
    desk.visited(old, r, "of the previous task");
  EXPECT_THROW(desk.follow_visits(0ms), failure);
  EXPECT_EQ(visit, old + 1);
}

TEST(CompletionQueue, ThrowsTheFirstErrorOfATask) {
  auto desk = new_desk();
  for (int i = 0; i < 2; ++i) {
    const auto visit = desk.begin_visits({0, 3});
    desk.visited(visit, 2, "no file");
    desk.visited(visit, 0, "");
    desk.visited(visit, 1, "no disk");
    try {
      desk.follow_visits(0ms);
      ADD_FAILURE() << "no failure";
    } catch (const failure& e) {
      EXPECT_EQ(e.code, ec::invalid);
      EXPECT_STREQ(e.what(), "replica 2: no file");
    }
  }
  const auto visit = desk.begin_visits({0, 1});
  desk.visited(visit, 0, "");
  EXPECT_NO_THROW(desk.follow_visits(0ms))
    << "errors of an older task do not count";
}

TEST(StepRegistry, FindsAStepFunctionByName) {
  step_book book;
  const auto fn = std::make_shared<const step_function>([](step_context&) {});
  EXPECT_FALSE(book.find("a"));
  book.put("a", fn);
  EXPECT_EQ(book.find("a"), fn);
  EXPECT_FALSE(book.find("b"));
  book.drop("a");
  EXPECT_FALSE(book.find("a"));
}

} // namespace
} // namespace troupe
