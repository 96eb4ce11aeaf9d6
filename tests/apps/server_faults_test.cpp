#include "worker_test.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

// Plans of faults over the processes of a job with parameter servers. With two
// workers and two servers, the chief is process 0, the workers are 1 and 2, and
// the servers 3 and 4.

namespace {

using namespace troupe;

class ServerFaults : public worker_test {
protected:
  static constexpr auto training =
    "train --data digits:280 --batch 20 --epochs 20 ";

  void put_plan(const std::string& list) const {
    put("plan.json", R"({"seed": 42, "faults": [)" + list + "]}");
  }

  /// Trains with two workers and two servers under a plan, and expects the
  /// weights of a run without faults.
  /// @param list  the faults as JSON.
  /// @param count number of the faults.
  outcome train(const std::string& list, int count,
                const std::string& options) const {
    static const auto undisturbed =
      weights_of(std::string{training} + "--strategy one_device --replicas 2");
    put_plan(list);
    const auto done =
      troupe(std::string{training}
             + "--consistency sync --workers 2 --servers 2 --faults plan.json "
               "--summary s.json "
             + options);
    const auto n = std::to_string(count);
    EXPECT_EQ(done.code, 0) << done.err;
    EXPECT_NE(done.out.find("weights_sha256 " + undisturbed), done.out.npos)
      << done.out << done.err;
    EXPECT_TRUE(
      contains(done, "faults: " + n + " of " + n + " occurred, seed 42\n"))
      << done.err;
    return done;
  }

  static bool contains(const outcome& x, const std::string& text) {
    return x.err.find(text) != x.err.npos;
  }

  static bool contains_once(const outcome& x, const std::string& text) {
    return contains(x, text) && x.err.find(text) == x.err.rfind(text);
  }
};

/// A server answers requests only as the primary of a shard.
TEST_F(ServerFaults, KillsOfAWorkerAndAPrimaryChangeNoBit) {
  const auto done = train(R"({"kind": "kill", "process": 1, "step": 60},
             {"kind": "kill", "process": 3, "message": 700})",
                          2, "--replication 2 --restarts 2");
  for (const auto* text :
       {"fault: process 1: faults[0], kill of process 1 at step 60",
        "fault: process 3: faults[1], kill of process 3 at message 700",
        "worker 0 was killed; it is started again",
        "ps 0 was killed; it is started again",
        "is lost; its copies are replaced"})
    EXPECT_TRUE(contains_once(done, text)) << text << '\n' << done.err;
  const auto found = nlohmann::json::parse(text_of("s.json"));
  EXPECT_EQ(found.value("lost_servers", 0), 1);
  EXPECT_EQ(found.value("steps", 0), 20 * 12);
}

TEST_F(ServerFaults, StopsAndSlowStepsChangeNoBit) {
  const auto done = train(R"({"kind": "stop", "process": 0, "time_ms": 0,
                              "duration_ms": 100},
                             {"kind": "stop", "process": 2, "step": 30,
                              "duration_ms": 150},
                             {"kind": "stop", "process": 3, "message": 200,
                              "duration_ms": 150},
                             {"kind": "slow", "process": 1, "step": 50,
                              "delay_ms": 10, "steps": 5})",
                          4, "");
  EXPECT_FALSE(contains(done, "lost")) << done.err;
}

TEST_F(ServerFaults, ConnectionsThatAreCutChangeNoBit) {
  const auto train_and_cut = [this](const std::string& fault) {
    return train(fault, 1, "--replication 2");
  };
  train_and_cut(R"({"kind": "cut", "process": 3, "peer": 2, "step": 50})");
  EXPECT_EQ(nlohmann::json::parse(text_of("s.json")).value("lost_servers", -1),
            0);
  const auto of_worker =
    train_and_cut(R"({"kind": "disconnect", "process": 1, "step": 50})");
  EXPECT_TRUE(contains(of_worker, "has joined the coordinator again"))
    << of_worker.err;
  const auto of_server =
    train_and_cut(R"({"kind": "disconnect", "process": 4, "message": 1000})");
  EXPECT_TRUE(contains_once(of_server, "is lost; its copies are replaced"))
    << of_server.err;
}

TEST_F(ServerFaults, RunInProgramsThatLaunchStarts) {
  put_plan(R"({"kind": "kill", "process": 2, "step": 9})");
  const auto done =
    troupe("launch --workers 2 --servers 1 --restarts 1 --faults plan.json "
           "-- " TROUPE_TOOL " "
           + std::string{training}
           + "--strategy parameter_server --consistency sync --summary s.json");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_TRUE(contains(done, "faults: 1 of 1 occurred, seed 42")) << done.err;
  EXPECT_TRUE(contains_once(done, "worker 1 was killed; it is started again"))
    << done.err;
  EXPECT_EQ(
    nlohmann::json::parse(text_of("s.json")).value("weights_sha256", "none"),
    weights_of(std::string{training} + "--strategy one_device --replicas 2"));
}

TEST_F(ServerFaults, AnInvalidPlanIsAUsageError) {
  const auto rejected = [this](const std::string& fault,
                               std::initializer_list<const char*> texts) {
    put_plan(fault);
    const std::string job = "--workers 2 --servers 2 --faults plan.json";
    expect_rejected("train " + job, 2, texts);
    expect_rejected("launch " + job + " -- /bin/true", 2, texts);
  };
  rejected(R"({"kind": "kill", "process": 5, "time_ms": 1})",
           {"plan.json: faults[0].process is 5; the job has the processes 0 "
            "to 4"});
  rejected(R"({"kind": "drop", "process": 3, "message": 1})",
           {"plan.json: faults[0].kind is \"drop\"", "give kill, stop"});
  rejected(R"({"kind": "kill", "process": 3, "step": 1})",
           {"faults[0].step", "process 3", "only a worker", "message"});
  rejected(R"({"kind": "clog", "process": 1, "step": 1, "factor": 2})",
           {"faults[0].kind is \"clog\""});
  expect_rejected("train --workers 2 --servers 2 --faults none.json", 1,
                  {"cannot read the fault plan \"none.json\""});
}

} // namespace
