#include "worker_test.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <nlohmann/json.hpp>

// Plans of faults over the processes of a job.

namespace {

using namespace troupe;

class Faults : public worker_test {
protected:
  static constexpr auto training =
    "train --data digits:280 --epochs 8 --batch 20 --replicas 4 ";

  const std::string& undisturbed() const {
    static const auto weights =
      weights_of(std::string{training} + "--strategy one_device");
    return weights;
  }

  /// Trains under a plan.
  /// @param list the faults as JSON.
  outcome train(const std::string& list, const std::string& options) const {
    put("plan.json", R"({"seed": 42, "faults": [)" + list + "]}");
    return troupe(training + options + " --faults plan.json");
  }

  static bool contains(const outcome& x, const std::string& text) {
    return x.err.find(text) != x.err.npos;
  }

  /// Expects that the faults with these numbers occurred, and how many the plan
  /// has.
  static void expect_occurred(const outcome& x, const std::string& count) {
    EXPECT_TRUE(contains(x, "faults: " + count + " occurred, seed 42"));
    EXPECT_TRUE(contains(x, "fault: process "));
  }

  /// Expects the weights of an undisturbed run.
  void expect_same_weights(const outcome& done) const {
    EXPECT_EQ(done.code, 0);
    EXPECT_NE(("\n" + done.out).find("\nweights_sha256 " + undisturbed()),
              done.out.npos)
      << done.out;
  }
};

TEST_F(Faults, AKillOfAnyWorkerChangesNoBit) {
  for (const auto* victim : {"0", "1"}) {
    const auto done = train(R"({"kind": "kill", "step": 40, "process": )"
                              + std::string{victim} + "}",
                            "--workers 2");
    SCOPED_TRACE(done.err);
    expect_same_weights(done);
    expect_occurred(done, "1 of 1");
    EXPECT_TRUE(
      contains(done, "kill of process " + std::string{victim} + " at step 40"));
    EXPECT_TRUE(contains(done, "worker " + std::string{victim}
                                 + ": signal 9 (Killed); the others"));
  }
}

/// The process that is started again does not kill itself again.
TEST_F(Faults, AKillOccursOnceAlthoughTheWorkerJoinsAgain) {
  const auto done = train(R"({"kind": "kill", "process": 1, "step": 8},
                             {"kind": "slow", "process": 0, "step": 9,
                              "delay_ms": 20})",
                          "--workers 2 --restarts 3");
  SCOPED_TRACE(done.err);
  expect_same_weights(done);
  expect_occurred(done, "2 of 2");
  EXPECT_TRUE(contains(done, "a process has joined"));
  const auto kill = std::string{"kill of process 1"};
  EXPECT_EQ(done.err.find(kill), done.err.rfind(kill));
}

TEST_F(Faults, AStopBelowTheHeartbeatTimeoutChangesNothing) {
  const auto done = train(R"({"kind": "stop", "process": 0, "step": 20,
                              "duration_ms": 150},
                             {"kind": "stop", "process": 1, "packet": 90,
                              "duration_ms": 150})",
                          "--workers 2");
  SCOPED_TRACE(done.err);
  expect_same_weights(done);
  expect_occurred(done, "2 of 2");
}

TEST_F(Faults, DelaysAndSlowStepsChangeNoBitOverEachTransport) {
  for (const std::string transport : {"shm", "tcp"}) {
    const auto done =
      train(R"({"kind": "delay", "probability": 0.05, "max_delay_ms": 3},
               {"kind": "delay", "process": 1, "packet": 7,
                "max_delay_ms": 60},
               {"kind": "delay", "process": 0, "message": 30,
                "max_delay_ms": 60},
               {"kind": "slow", "process": 1, "step": 30, "delay_ms": 10,
                "steps": 5})",
            "--workers 2 --transport " + transport);
    SCOPED_TRACE(transport + '\n' + done.err);
    expect_same_weights(done);
    expect_occurred(done, "4 of 4");
  }
}

TEST_F(Faults, ConnectionsThatAreCutAreMadeAgain) {
  for (const std::string fault :
       {R"({"kind": "cut", "process": 1, "peer": 0, "step": 40})",
        R"({"kind": "disconnect", "process": 0, "step": 40})"}) {
    const auto done = train(fault, "--workers 2");
    SCOPED_TRACE(fault + '\n' + done.err);
    expect_occurred(done, "1 of 1");
    expect_same_weights(done);
    EXPECT_TRUE(contains(done, "connections were made again"));
    EXPECT_TRUE(contains(done, "the job goes on with 2 processes"));
  }
}

TEST_F(Faults, AWorkerThatIsKilledBeforeTheStartTakesItsPlaceAgain) {
  const auto done = train(R"({"kind": "kill", "process": 1, "time_ms": 0})",
                          "--workers 2 --restarts 1");
  SCOPED_TRACE(done.err);
  expect_occurred(done, "1 of 1");
  expect_same_weights(done);
  EXPECT_TRUE(contains(done, "worker 1 was killed; it is started again"));
}

TEST_F(Faults, LostAndCorruptPacketsChangeNoBit) {
  const auto done = train(R"({"kind": "drop", "process": 1, "packet": 40},
                             {"kind": "drop", "process": 0, "packet": 200},
                             {"kind": "corrupt", "process": 1, "packet": 300})",
                          "--workers 2");
  SCOPED_TRACE(done.err);
  expect_same_weights(done);
  expect_occurred(done, "3 of 3");
}

TEST_F(Faults, ATimeStrikesBeforeTheFirstMessage) {
  const auto done = train(R"({"kind": "stop", "process": 1, "time_ms": 0,
                              "duration_ms": 100})",
                          "--workers 2");
  SCOPED_TRACE(done.err);
  expect_same_weights(done);
  expect_occurred(done, "1 of 1");
}

TEST_F(Faults, AFaultThatDoesNotOccurIsNamed) {
  const auto done = train(R"({"kind": "kill", "process": 1, "step": 4000},
                             {"kind": "duplicate", "probability": 0})",
                          "--workers 2");
  SCOPED_TRACE(done.err);
  expect_same_weights(done);
  EXPECT_TRUE(contains(done, "faults: 0 of 2 occurred, seed 42; did not occur: "
                             "faults[0], kill of process 1 at step 4000; "
                             "faults[1], duplicate with probability 0"));
}

TEST_F(Faults, RunInProgramsThatLaunchStarts) {
  put("plan.json",
      R"({"faults": [{"kind": "kill", "process": 1, "step": 9}]})");
  const auto done = troupe("launch -n 2 --restarts 2 --faults plan.json -- "
                           + std::string{TROUPE_TOOL} + " " + training
                           + "--strategy multi_worker_mirrored");
  SCOPED_TRACE(done.err);
  EXPECT_EQ(done.code, 0);
  EXPECT_TRUE(contains(done, "faults: 1 of 1 occurred, seed 0"));
  EXPECT_NE(done.out.find("weights_sha256 " + undisturbed()), done.out.npos)
    << done.out;
}

TEST_F(Faults, AnInvalidPlanIsAUsageError) {
  const auto rejected = [this](const char* list,
                               std::initializer_list<const char*> texts) {
    put("plan.json", std::string{R"({"faults": [)"} + list + "]}");
    expect_rejected("train --workers 2 --faults plan.json", 2, texts);
    expect_rejected("launch -n 2 --faults plan.json -- /bin/true", 2, texts);
  };
  rejected(R"({"kind": "kill", "process": 2, "step": 1})",
           {"plan.json: faults[0].process is 2; the job has the processes 0 to "
            "1"});
  rejected(R"({"kind": "kill", "process": 1, "stepp": 1})",
           {"plan.json: faults[0] has the key \"stepp\"", "step, message"});
  rejected(R"({"kind": "clog", "process": 1, "step": 1, "factor": 2})",
           {"plan.json: faults[0].kind is \"clog\"", "over processes give"});
  put("plan.json", R"({"faults": [{"kind": "drop", "replica": 4,
                       "probability": 0.1}]})");
  expect_rejected("train --workers 2 --replicas 4 --faults plan.json", 2,
                  {"faults[0].replica is 4; the job has the replicas 0 to 3"});
  expect_rejected("train --workers 2 --faults none.json", 1,
                  {"cannot read the fault plan \"none.json\""});
  expect_rejected("train --faults plan.json", 2,
                  {"--faults plan.json", "--workers"});
}

} // namespace
