#include "../support/regression_table.hpp"
#include "../support/scratch.hpp"
#include "child.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

namespace {

using namespace troupe;

/// Runs an example. Returns the last line of its output.
/// @param argument Empty: none.
std::string last_line_of(const std::string& example,
                         const std::string& argument = {}) {
  std::vector<std::string> command{std::string{TROUPE_EXAMPLES} + "/example_"
                                   + example};
  if (!argument.empty())
    command.push_back(argument);
  const auto done = run_child(command);
  EXPECT_EQ(done.code, 0) << done.err;
  auto text = done.out.substr(0, done.out.find_last_not_of('\n') + 1);
  return text.substr(text.rfind('\n') + 1);
}

double last_number_of(const std::string& line) {
  return std::stod(line.substr(line.rfind(' ') + 1));
}

TEST(Examples, TrainInAtMost30Lines) {
  // The updates of servers have no fixed order. On a busy machine, some of them
  // are computed from older weights.
  const std::pair<std::string, double> examples[] = {{"mirrored", 0.9},
                                                     {"servers", 0.85}};
  for (const auto& [name, least] : examples) {
    const auto line = last_line_of(name);
    EXPECT_EQ(line.rfind("accuracy ", 0), 0u) << line;
    EXPECT_GT(last_number_of(line), least) << line;
    std::ifstream source{TROUPE_SOURCE_DIR "/apps/examples/" + name + ".cpp"};
    ASSERT_TRUE(source) << name;
    const std::string text{std::istreambuf_iterator<char>{source}, {}};
    EXPECT_LE(std::ranges::count(text, '\n'), 30) << name;
  }
}

TEST(Examples, RunACustomTrainingLoop) {
  const auto line = last_line_of("loop");
  EXPECT_EQ(line.rfind("step 200  loss ", 0), 0u) << line;
  EXPECT_LT(last_number_of(line), 1) << line;
}

class ExampleTable : public scratch_test {};

TEST_F(ExampleTable, LearnsAColumnOfNumbers) {
  put("t.csv", test::regression_table(400));
  const auto line = last_line_of("regression", (folder / "t.csv").string());
  EXPECT_EQ(line.rfind("mean squared error ", 0), 0u) << line;
  // The noise is uniform in [-0.3, 0.3]; its variance is 0.03.
  EXPECT_GT(last_number_of(line), 0.02) << line;
  EXPECT_LT(last_number_of(line), 0.04) << line;
}

TEST(Examples, RunInManyProcesses) {
  const auto done = run_child({TROUPE_TOOL, "launch", "-n", "2", "--",
                               TROUPE_EXAMPLES "/example_workers"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.out.rfind("[worker 0] 4 replicas, weights ", 0), 0u)
    << done.out;
}

TEST(Examples, NameAnInvalidTaskIndex) {
  ::setenv("TF_CONFIG",
           R"({"cluster": {"worker": ["127.0.0.1:1"]},
               "task": {"type": "worker", "index": 1}})",
           1);
  const auto done = run_child({TROUPE_EXAMPLES "/example_workers"});
  ::unsetenv("TF_CONFIG");
  EXPECT_EQ(done.code, 1);
  EXPECT_EQ(done.err, "workers: TF_CONFIG: task.index is 1, but cluster.worker "
                      "has 1 task; give 0\n");
}

} // namespace
