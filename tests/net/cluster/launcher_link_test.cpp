#include "troupe/net/base/descriptor.hpp"
#include "troupe/net/cluster/device_loss_report.hpp"
#include "troupe/net/cluster/launcher_link.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace {

using troupe::net::descriptor, troupe::net::launcher_link;

/// A launcher and the end of the socket that its process has inherited.
class LauncherLink : public ::testing::Test {
protected:
  LauncherLink() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()),
              0);
    launcher = descriptor{ends[0]};
    process = descriptor{ends[1]};
  }
  ~LauncherLink() override { ::unsetenv(launcher_link::variable); }

  std::optional<launcher_link> open(const std::string& suffix = {}) const {
    const auto text = std::to_string(process.get()) + suffix;
    ::setenv(launcher_link::variable, text.c_str(), 1);
    return launcher_link::from_environment();
  }

  void say(std::string_view text) const {
    EXPECT_EQ(::write(launcher.get(), text.data(), text.size()),
              ssize_t(text.size()));
  }

  std::string said() const {
    std::array<char, 256> buffer;
    const auto n = ::recv(launcher.get(), buffer.data(), buffer.size(), 0);
    return {buffer.data(), n < 0 ? 0 : std::size_t(n)};
  }

  descriptor launcher, process;
};

TEST_F(LauncherLink, ReportsInLines) {
  const auto link = open();
  ASSERT_TRUE(link);
  EXPECT_TRUE(link->is_witness());
  link->report_unreachable(4711);
  EXPECT_EQ(said(), "unreachable 4711\n");
  link->report_left();
  EXPECT_EQ(said(), "left\n");
  troupe::net::report_lost_device();
  EXPECT_EQ(said(), "device lost\n");
}

TEST_F(LauncherLink, AsksWhichProcessesLive) {
  const auto link = open();
  ASSERT_TRUE(link);
  EXPECT_TRUE(link->report_candidate({"host", 4711, 12}));
  EXPECT_EQ(said(), "candidate 4711 12\n");
  EXPECT_TRUE(link->report_candidate({}));
  EXPECT_EQ(said(), "candidate 0 0\n");
  const auto first = link->ask({{5, 6}, {5, 6, 7}, {8}});
  EXPECT_EQ(said(),
            "survivors " + std::to_string(first) + " 5 6 / 5 6 7 / 8\n");
  const auto second = link->ask({});
  EXPECT_EQ(said(), "survivors " + std::to_string(second) + " / /\n");
  EXPECT_EQ(second, first + 1);
  link->withdraw();
  EXPECT_EQ(said(), "withdrawn\n");
  const auto number = std::to_string(second);
  for (const auto& text :
       {std::string{"survivors\n"}, std::string{"survivors x\n"},
        "survivors " + number + " 1\n", "survivors -" + number + "\n",
        "survivors " + number}) {
    say(text);
    EXPECT_EQ(link->answer_to(second), std::nullopt) << text;
  }
  say("\n");
  EXPECT_EQ(link->answer_to(second), true);
  EXPECT_EQ(link->answer_to(first), std::nullopt);
  say("undecided " + number + "\n");
  EXPECT_EQ(link->answer_to(second), false);
  launcher.reset();
  EXPECT_FALSE(link->report_candidate({}));
}

TEST_F(LauncherLink, KnowsWhetherTheLauncherIsAWitness) {
  const auto link = open(launcher_link::no_witness);
  ASSERT_TRUE(link);
  EXPECT_FALSE(link->is_witness());
}

TEST_F(LauncherLink, IsNotTakenFromNonsense) {
  for (const auto* suffix : {"x", ":", ":no", ":no-witness:no-witness"})
    EXPECT_FALSE(open(suffix)) << suffix;
  ::setenv(launcher_link::variable, "-1", 1);
  EXPECT_FALSE(launcher_link::from_environment());
  ::setenv(launcher_link::variable, "", 1);
  EXPECT_FALSE(launcher_link::from_environment());
}

/// The process has one launcher, so the end is known to all later links, too.
TEST_F(LauncherLink, HearsTheEndOnlyAsAWholeLine) {
  const auto link = open();
  ASSERT_TRUE(link);
  EXPECT_FALSE(link->is_job_ended());
  const std::vector<std::string> texts{
    "ended\n", "\n", "end end\n", std::string(1000, 'x'), "\n", "en"};
  for (const auto& text : texts) {
    say(text);
    EXPECT_FALSE(link->is_job_ended()) << text;
  }
  say("d\n");
  EXPECT_TRUE(link->is_job_ended());
  launcher.reset();
  EXPECT_TRUE(link->is_job_ended());
  EXPECT_TRUE(open()->is_job_ended());
  link->report_left(); // has no effect
}

} // namespace
