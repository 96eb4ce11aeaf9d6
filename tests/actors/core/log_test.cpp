#include "troupe/actors/core/log.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>
#include <vector>

namespace {

using namespace troupe;

class Log : public ::testing::Test {
protected:
  void SetUp() override {
    log_to([this](log_level level, std::string_view line) {
      lines.emplace_back(level, line);
    });
    log_from(log_level::info);
  }
  void TearDown() override {
    log_to(nullptr);
    log_from(log_level::warning);
  }
  std::vector<std::pair<log_level, std::string>> lines;
};

TEST_F(Log, GoesToTheSinkOfTheUser) {
  log(log_level::error, "the disk is full");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].first, log_level::error);
  EXPECT_EQ(lines[0].second, "the disk is full");
}

TEST_F(Log, DropsLinesBelowTheLevel) {
  log(log_level::debug, "a detail");
  EXPECT_FALSE(logs(log_level::debug));
  EXPECT_TRUE(lines.empty());
  log_from(log_level::off);
  log(log_level::error, "no listener");
  EXPECT_TRUE(lines.empty());
}

TEST_F(Log, SinkCallsDoNotOverlap) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([] {
      for (int i = 0; i < 100; ++i)
        log(log_level::info, "line");
    });
  for (auto& t : threads)
    t.join();
  EXPECT_EQ(lines.size(), 400u);
}

TEST_F(Log, SurvivesASinkThatThrows) {
  log_to([](log_level, std::string_view) { throw std::runtime_error("no"); });
  log(log_level::error, "a line");
}

} // namespace
