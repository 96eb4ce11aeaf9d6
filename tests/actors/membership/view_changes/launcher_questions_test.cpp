#include "troupe/actors/membership/view_changes/launcher_questions.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

using namespace troupe;
using namespace std::chrono_literals;

namespace {

/// A launcher whose answers the test gives.
struct fake_launcher final : job_launcher {
  void report_unreachable(std::uint64_t) override {}
  bool report_candidate(const net::process_identity&) override { return true; }
  std::uint64_t ask(const net::survivors_question& question) override {
    questions.push_back(question);
    return questions.size();
  }
  std::optional<bool> answer_to(std::uint64_t) override { return answer; }
  void withdraw() override { ++withdrawals; }

  std::vector<net::survivors_question> questions;
  std::optional<bool> answer;
  int withdrawals = 0;
};

/// Asks in process 0 of a view of tasks 0, 1, 2 and 3 with incarnations from 10
/// and process numbers from 100. Process 1 is reachable, 2 is silent, and 3 has
/// left.
struct LauncherQuestions : ::testing::Test {
  using answer = launcher_questions::answer;

  LauncherQuestions() {
    options.self.incarnation = 10;
    options.peers = std::make_shared<peer_table>(4);
    options.launcher = launcher;
    auto& table = *options.peers;
    table.view.view_id = 5;
    for (std::uint32_t task = 0; task < 4; ++task) {
      table.view.members.push_back({task, 10 + task, "host", 1, {task}, 1});
      table.entries[task].incarnation = 10 + task;
    }
    table.entries[3].has_left = true;
  }

  std::optional<membership_event::survivors_asked> ask() {
    return questions.ask({2}, 1s, [this](const view_change::process_id& x) {
      return launcher_questions::known_member{
        x.task == unknown ? std::nullopt : std::optional{100ul + x.task},
        x.task == 1};
    });
  }

  const std::shared_ptr<fake_launcher> launcher =
    std::make_shared<fake_launcher>();
  membership_options options;
  launcher_questions questions{options};
  std::optional<std::uint32_t> unknown; ///< Task of a process elsewhere.
};

TEST_F(LauncherQuestions, NameTheMembersThatLiveAndThoseThatHaveLeft) {
  const auto asked = ask();
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->view_id, 5u);
  EXPECT_EQ(asked->living, (std::vector<view_change::process_id>{{1, 11}}));
  ASSERT_EQ(launcher->questions.size(), 1u);
  const net::survivors_question expected{{101}, {101, 102, 103}, {103}};
  EXPECT_EQ(launcher->questions.front(), expected);
}

TEST_F(LauncherQuestions, AreNotAskedWithoutALauncherOfAllMembers) {
  unknown = 2;
  EXPECT_FALSE(ask());
  unknown.reset();
  options.launcher = nullptr;
  EXPECT_FALSE(ask());
  EXPECT_TRUE(launcher->questions.empty());
}

TEST_F(LauncherQuestions, AreUncertainWithoutAnAnswerInTime) {
  const auto asked = ask();
  ASSERT_TRUE(asked);
  EXPECT_EQ(questions.look_for_answer(*asked, 2s), answer::awaited);
  EXPECT_EQ(questions.look_for_answer(*asked, 1h), answer::uncertain);
  EXPECT_EQ(questions.look_for_answer(*asked, 1h), answer::outdated);
}

TEST_F(LauncherQuestions, EndWithTheirAnswer) {
  auto asked = ask();
  ASSERT_TRUE(asked);
  launcher->answer = true;
  EXPECT_EQ(questions.look_for_answer(*asked, 2s), answer::certain);
  questions.withdraw();
  EXPECT_EQ(launcher->withdrawals, 0);
  asked = ask();
  ASSERT_TRUE(asked);
  launcher->answer = false;
  EXPECT_EQ(questions.look_for_answer(*asked, 2s), answer::uncertain);
}

TEST_F(LauncherQuestions, AreOutdatedWhenTheyAreWithdrawnOrAskedAgain) {
  const auto first = ask(), second = ask();
  ASSERT_TRUE(first && second);
  EXPECT_EQ(questions.look_for_answer(*first, 2s), answer::outdated);
  questions.withdraw();
  EXPECT_EQ(questions.look_for_answer(*second, 2s), answer::outdated);
  EXPECT_EQ(launcher->withdrawals, 1);
}

} // namespace
