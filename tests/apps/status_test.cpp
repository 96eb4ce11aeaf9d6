#include "tool.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <sys/stat.h>

// Tests of `troupe status` for a job of several processes.

namespace {

using namespace troupe;
using namespace std::chrono_literals;

class Status : public tool_test {
protected:
  Status() {
    const auto go = folder / "go";
    EXPECT_EQ(::mkfifo(go.c_str(), 0600), 0);
    fifo_ = ::open(go.c_str(),
                   O_RDWR | O_CLOEXEC); // O_RDWR, so that it does not block
    EXPECT_GE(fifo_, 0);
  }
  ~Status() override { ::close(fifo_); }

  void release_step() const { EXPECT_EQ(::write(fifo_, "x", 1), 1); }

  /// Returns the two words after "ask " in the output of the leader: its
  /// address and its secret file. Nullopt: the line is not complete yet.
  static std::optional<std::pair<std::string, std::string>>
  query_target(const std::string& err) {
    const std::string begin = "[worker 0] ask ";
    const auto position = err.find(begin);
    if (position == err.npos || err.find('\n', position) == err.npos)
      return {};
    std::istringstream input{err.substr(position + begin.size())};
    std::pair<std::string, std::string> out;
    input >> out.first >> out.second;
    return out;
  }

  /// Repeats the query until the output explains why the step is not complete.
  outcome status_of_stalled_step(const std::string& words) const {
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    for (;;) {
      const auto x = troupe("status " + words);
      if (x.code != 0 || x.out.find("still missing") != x.out.npos
          || std::chrono::steady_clock::now() > deadline)
        return x;
    }
  }

private:
  int fifo_ = -1;
};

TEST_F(Status, OfAJobNamesTheReplicaThatAStepWaitsFor) {
  std::optional<outcome> status, unauthorized;
  child_options options;
  options.on_error_output = [&](pid_t, const std::string& err) {
    const auto whom = query_target(err);
    if (status || !whom)
      return;
    unauthorized = troupe("status --timeout 1 " + whom->first);
    status =
      status_of_stalled_step(whom->first + " --secret-file " + whom->second);
    release_step();
  };
  const auto job =
    troupe("launch -n 2 -- " TROUPE_PROGRAMS "/reducer held", options);
  EXPECT_EQ(job.code, 0) << job.err << "a status query failed the job";
  ASSERT_TRUE(status) << job.err;
  EXPECT_EQ(status->code, 0) << status->err;
  EXPECT_EQ(status->out.rfind("job ", 0), 0u) << status->out;
  for (const auto* part :
       {"generation 1, step 1, ", "last commit ", "\nworker 0  active ",
        "\nworker 1  active ", "step 1 is not done: replica 0 waits for ",
        "still missing replica 1", "replica 1 of worker 1 has not reported it",
        "\nmissing for ", "replica 1 of worker 1, in the sum of bucket "})
    EXPECT_NE(status->out.find(part), std::string::npos) << part << "\n"
                                                         << status->out;
  EXPECT_EQ(unauthorized->code, 1) << "the query had no secret";
  EXPECT_EQ(unauthorized->out, "");
}

} // namespace
