#include "background.hpp"
#include "troupe/net/io/reserved_ports.hpp"
#include "worker_test.hpp"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>

// Worker programs that a person has started by hand. No launcher is a witness,
// so of two processes none goes on alone while the other one may live.

namespace {

using namespace troupe;

class FailedJobs : public worker_test {
protected:
  static constexpr auto training = "train --batch 20 --epochs 12 --replicas 2 ";
  static constexpr auto digits = "--data digits:1400 ";

  std::unique_ptr<background_process>
  start(int worker, const std::string& data = digits) const {
    const auto address = [this](int one) {
      return "\"127.0.0.1:" + std::to_string(ports_.numbers()[one]) + "\"";
    };
    return std::make_unique<background_process>(std::vector<std::string>{
      "/bin/sh", "-c",
      "cd " + folder.string() + " && TF_CONFIG='{\"cluster\": {\"worker\": ["
        + address(0) + ", " + address(1)
        + "]}, \"task\": {\"type\": \"worker\", \"index\": "
        + std::to_string(worker) + "}}' exec " TROUPE_TOOL " " + training + data
        + "--strategy multi_worker_mirrored --save model 2>&1"});
  }

  /// Reads the output up to a line that contains a text.
  static std::string read_until(background_process& process,
                                const std::string& text) {
    for (;;) {
      const auto line = process.line();
      if (line.find(text) != line.npos || line == "[no line]")
        return line;
    }
  }

private:
  const net::reserved_ports ports_{2};
};

/// A worker is stopped. The other one gives up. When the first one continues,
/// the other one has ended, so it goes on alone.
TEST_F(FailedJobs, GoOnFromTheStateOfAWorkerWithoutAMajority) {
  const auto expected =
    weights_of(std::string{training} + digits + "--strategy one_device");
  std::array workers{start(0), start(1)};
  EXPECT_NE(read_until(*workers[0], "epoch 1/"), "[no line]");
  workers[1]->signal(SIGSTOP);
  const auto said = read_until(*workers[0], "continue with: ");
  EXPECT_NE(said.find("troupe train --resume model.view-1.0"), said.npos)
    << said;
  EXPECT_EQ(workers[0]->end(), 1);
  EXPECT_EQ(weights_of("train --workers 2 --resume model.view-1.0"), expected);
  workers[1]->signal(SIGCONT);
  EXPECT_EQ(read_until(*workers[1], "weights_sha256"),
            "weights_sha256 " + expected);
  EXPECT_EQ(workers[1]->end(), 0);
}

/// The other worker does not wait for it until the start timeout.
TEST_F(FailedJobs, TellTheOthersThatAWorkerCannotReadItsData) {
  constexpr auto absent = "--data csv:absent.csv:price ";
  for (const int lacking : {0, 1}) {
    const std::array workers{start(0, lacking == 0 ? absent : digits),
                             start(1, lacking == 1 ? absent : digits)};
    const auto said =
      read_until(*workers[1 - lacking], "cannot take part in the job: ");
    EXPECT_NE(said.find("worker " + std::to_string(lacking)
                        + " cannot take part in the job: "),
              said.npos)
      << said;
    EXPECT_NE(said.find("absent.csv"), said.npos) << said;
    EXPECT_EQ(workers[1 - lacking]->end(), 1);
    EXPECT_NE(workers[lacking]->end(), 0);
  }
}

} // namespace
