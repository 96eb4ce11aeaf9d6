#include "background.hpp"
#include "troupe/net/cluster/cluster_spec.hpp"
#include "troupe/net/cluster/tf_config.hpp"
#include "troupe/net/io/reserved_ports.hpp"
#include "troupe/tests/support/sanitizers.hpp"
#include "troupe/training/model.hpp"
#include "worker_test.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <ios>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

// Runs with parameter servers whose state is saved on the way. They resume from
// it when the chief, or a server without copies, is lost. With two workers and
// two servers, the servers are the processes 3 and 4 of a plan of faults.

namespace {

using namespace troupe;

class LostServers : public worker_test {
protected:
  static constexpr auto training =
    "train --data digits:280 --batch 20 --epochs 20 ";
  static constexpr auto servers = "--consistency sync --workers 2 --servers 2 ";

  /// A return to a step, as the chief has reported it.
  struct reported_return {
    std::string servers;
    std::uint64_t kept = 0;
    std::uint64_t repeated = 0; ///< Number of steps.
  };

  static std::vector<reported_return> returns_in(const std::string& err) {
    const std::regex line{
      "warning: (.*) (?:was|were) lost and (?:is|are) there again; all "
      "parameter servers go back to step (\\d+), and (?:no step is|step (\\d+) "
      "is|steps (\\d+) to (\\d+) are) computed again\n"};
    std::vector<reported_return> out;
    for (std::sregex_iterator i{err.begin(), err.end(), line}, end; i != end;
         ++i) {
      const auto& x = *i;
      reported_return one{x[1], std::stoull(x[2])};
      if (x[3].matched)
        one.repeated = 1;
      if (x[4].matched) {
        EXPECT_EQ(std::stoull(x[4]), one.kept + 1) << x[0];
        one.repeated = std::stoull(x[5]) - one.kept;
      }
      out.push_back(one);
    }
    return out;
  }

  std::string undisturbed(const std::string& command) const {
    return weights_of(command + "--strategy one_device --replicas 2");
  }

  /// Trains under a plan of faults, and checks that no bit has changed. Writes
  /// s.json.
  std::vector<reported_return> train(const std::string& list,
                                     const std::string& options) const {
    static const auto expected = undisturbed(training);
    put("plan.json", R"({"seed": 42, "faults": [)" + list + "]}");
    const auto done =
      troupe(std::string{training} + servers
             + "--faults plan.json --summary s.json " + options);
    EXPECT_EQ(done.code, 0) << done.err;
    EXPECT_NE(done.out.find("weights_sha256 " + expected), done.out.npos)
      << done.out << done.err;
    EXPECT_EQ(done.err.find("have not occurred"), done.err.npos) << done.err;
    const auto found = nlohmann::json::parse(text_of("s.json"));
    EXPECT_EQ(found.value("steps", 0), 20 * 12);
    EXPECT_EQ(found["epochs"].size(), 20u);
    for (const auto& epoch : found["epochs"])
      EXPECT_EQ(epoch.value("examples", 0), 240);
    return returns_in(done.err);
  }

  /// Runs the tool, and kills tasks when an epoch has ended.
  /// @param tasks such as {"ps", 0}.
  outcome run_and_kill(const std::vector<std::pair<std::string, int>>& tasks,
                       const std::string& command) const {
    child_options options;
    bool killed = false;
    options.on_error_output = [&](pid_t tool, const std::string& err) {
      if (killed || err.find("epoch 2/") == err.npos)
        return;
      killed = true;
      for (const auto& [type, index] : tasks) {
        const auto target =
          child_with(tool, "\"task\":{\"index\":" + std::to_string(index)
                             + ",\"type\":\"" + type + "\"}");
        ASSERT_GT(target, 0) << type << index;
        EXPECT_EQ(::kill(target, SIGKILL), 0);
      }
    };
    auto done = troupe(command, options);
    EXPECT_TRUE(killed) << done.err;
    return done;
  }
};

TEST_F(LostServers, StatesThatAreSavedOnTheWayChangeNoBit) {
  const auto expected = undisturbed(training);
  for (const auto* steps : {"1", "7", "12", "1000"}) {
    const auto found = summary_of(std::string{training} + servers
                                  + "--save m.troupe --save-steps " + steps);
    EXPECT_EQ(found.value("weights_sha256", ""), expected) << steps;
    EXPECT_EQ(found["epochs"].size(), 20u) << steps;
    EXPECT_EQ(found.value("lost_servers", -1), 0) << steps;
    expect_rejected("train --resume m.troupe", 2, {"the run is complete"});
  }
}

/// Where the file should be there is a folder for some time.
TEST_F(LostServers, AStateThatCannotBeSavedDoesNotEndTheRun) {
  const auto file = folder / "m.troupe";
  child_options options;
  bool is_blocked = false;
  options.on_error_output = [&](pid_t, const std::string& err) {
    std::error_code error;
    if (err.find("the run goes on without this file") != err.npos) {
      std::filesystem::remove(file, error);
    } else if (!is_blocked && err.find("epoch 2/") != err.npos) {
      is_blocked = true;
      do
        std::filesystem::remove(file, error);
      while (!std::filesystem::create_directory(file, error));
    }
  };
  const auto done =
    troupe(std::string{training} + servers + "--save m.troupe --save-steps 5",
           options);
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.err.find("the run goes on without this file"), done.err.npos)
    << done.err;
  EXPECT_NE(done.out.find("weights_sha256 " + undisturbed(training)),
            done.out.npos)
    << done.out;
  EXPECT_EQ(model::load(file).steps(), 20u * 12);
}

/// The limit is that of the run, also if steps are computed again.
TEST_F(LostServers, CountNoStepTwiceForMaxSteps) {
  put("plan.json", R"({"seed": 42, "faults": [
    {"kind": "kill", "process": 4, "message": 300}]})");
  const auto cut =
    troupe(std::string{training} + servers
           + "--faults plan.json --restarts 1 --save-steps 10 --max-steps 150 "
             "--save m.troupe");
  EXPECT_EQ(cut.code, 130) << cut.err;
  EXPECT_EQ(returns_in(cut.err).size(), 1u) << cut.err;
  EXPECT_NE(cut.err.find("interrupted after step 150;"), cut.err.npos)
    << cut.err;
  EXPECT_EQ(model::load(folder / "m.troupe").steps(), 150u);
  EXPECT_EQ(weights_of("train --resume m.troupe"), undisturbed(training));
}

TEST_F(LostServers, ARunWhoseChiefIsKilledGoesOnFromItsFile) {
  const std::string command = "train --data digits:280 --batch 20 --epochs 20 ";
  const auto cut = run_and_kill(
    {{"chief", 0}}, command + servers + "--save m.troupe --save-steps 5");
  EXPECT_EQ(cut.code, 1) << cut.err;
  const auto found = summary_of("train --resume m.troupe");
  EXPECT_EQ(found.value("weights_sha256", ""), undisturbed(command));
  EXPECT_EQ(found["epochs"].size(), 20u);
}

/// The state of a server ends with it. All servers go back to one step, so no
/// bit differs.
/// Changes a byte in the middle of a file.
void damage(const std::filesystem::path& file) {
  std::fstream bytes{file, std::ios::in | std::ios::out | std::ios::binary};
  const auto middle =
    static_cast<std::streamoff>(std::filesystem::file_size(file) / 2);
  bytes.seekg(middle);
  const auto byte = static_cast<char>(bytes.get() ^ 1);
  bytes.seekp(middle);
  bytes.put(byte);
  ASSERT_TRUE(bytes.flush());
}

TEST_F(LostServers, ARunWhoseFileIsDamagedGoesOnFromTheVersionBefore) {
  const auto file = folder / "m.troupe",
             previous = folder / "m.troupe.previous";
  ASSERT_EQ(troupe(std::string{training} + servers
                   + "--save m.troupe --save-steps 20 --max-steps 50")
              .code,
            130);
  EXPECT_EQ(model::load(previous).steps(), 40u);
  damage(file);
  const auto resumed = troupe("train --resume m.troupe --summary s.json");
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_NE(resumed.err.find("\"m.troupe\" is damaged"), resumed.err.npos)
    << resumed.err;
  EXPECT_NE(
    resumed.err.find("the version before it, \"m.troupe.previous\", is used"),
    resumed.err.npos)
    << resumed.err;
  EXPECT_EQ(nlohmann::json::parse(text_of("s.json"))["weights_sha256"],
            undisturbed(training));
  EXPECT_EQ(model::load(file).steps(), 20u * 12);
  damage(file);
  expect_rejected("train --resume m.troupe --epochs 30", 1,
                  {"\"m.troupe\" is damaged"});
}

TEST_F(LostServers, ACompleteRunLeavesNoVersionBefore) {
  ASSERT_EQ(
    troupe(std::string{training} + servers + "--save m.troupe --save-steps 20")
      .code,
    0);
  EXPECT_EQ(model::load(folder / "m.troupe").steps(), 20u * 12);
  EXPECT_FALSE(std::filesystem::exists(folder / "m.troupe.previous"));
}

TEST_F(LostServers, AreStartedAgainAndChangeNoBit) {
  for (const auto& [process, options, multiple] :
       {std::tuple{"3", "--restarts 1", 12u},
        {"4", "--restarts 1 --save-steps 25", 25u}}) {
    const auto returns =
      train(std::string{R"({"kind": "kill", "message": 600, "process": )"}
              + process + "}",
            options);
    ASSERT_EQ(returns.size(), 1u);
    const std::string server = process == std::string{"3"} ? "0" : "1";
    EXPECT_EQ(
      returns[0].servers.rfind("parameter server " + server + " at ", 0), 0u)
      << returns[0].servers;
    EXPECT_GT(returns[0].kept, 0u);
    EXPECT_EQ(returns[0].kept % multiple, 0u);
    EXPECT_GT(returns[0].repeated, 0u);
    EXPECT_LE(returns[0].repeated, multiple + 1);
    EXPECT_EQ(nlohmann::json::parse(text_of("s.json")).value("lost_servers", 0),
              1);
  }
}

TEST_F(LostServers, ThatAreLostOneAfterTheOtherChangeNoBit) {
  const auto returns = train(R"({"kind": "kill", "process": 3, "message": 300},
             {"kind": "kill", "process": 4, "message": 700})",
                             "--restarts 2 --save-steps 10");
  EXPECT_EQ(returns.size(), 2u);
  EXPECT_EQ(nlohmann::json::parse(text_of("s.json")).value("lost_servers", 0),
            2);
}

/// The process lives, but what it holds ends with the connection of the chief.
TEST_F(LostServers, WhoseConnectionsEndChangeNoBit) {
  const auto returns =
    train(R"({"kind": "disconnect", "process": 4, "message": 600})",
          "--restarts 1 --save-steps 25");
  ASSERT_EQ(returns.size(), 1u);
  EXPECT_EQ(returns[0].servers, "the connection to a parameter server");
  EXPECT_GT(returns[0].repeated, 0u);
}

/// The run begins again.
TEST_F(LostServers, BeforeTheFirstStateIsKeptChangeNoBit) {
  const auto returns = train(R"({"kind": "kill", "process": 4, "message": 30})",
                             "--restarts 1 --save-steps 1000");
  ASSERT_EQ(returns.size(), 1u);
  EXPECT_EQ(returns[0].kept, 0u);
  EXPECT_GT(returns[0].repeated, 0u);
}

TEST_F(LostServers, ThatAreLostTogetherOrWithWorkersChangeNoBit) {
  const std::string command = "train --data digits:280 --batch 20 --epochs 20 ";
  const auto expected = undisturbed(command);
  using tasks = std::vector<std::pair<std::string, int>>;
  for (const auto& killed :
       {tasks{{"ps", 0}, {"ps", 1}}, tasks{{"worker", 0}, {"ps", 1}},
        tasks{{"ps", 0}, {"worker", 0}, {"worker", 1}}}) {
    const auto done =
      run_and_kill(killed, command + servers + "--restarts 3 --save-steps 10");
    EXPECT_EQ(done.code, 0) << done.err;
    EXPECT_NE(done.out.find("weights_sha256 " + expected), done.out.npos)
      << done.out << done.err;
    EXPECT_GE(returns_in(done.err).size(), 1u) << done.err;
  }
}

TEST_F(LostServers, WithATableChangeNoBit) {
  if (test::has_address_sanitizer)
    GTEST_SKIP() << "2.6 million rows of a table take minutes";
  put("m.json", R"({"version": 1, "name": "m", "input": [13],
    "categories": 26, "layers": [
    {"type": "category_embedding", "rows": 100000, "units": 2},
    {"type": "dense", "units": 1}]})");
  const std::string command =
    "train --model m.json --data clicks:3500 --batch 100 --optimizer adagrad "
    "--epochs 8 ";
  const auto done = run_and_kill(
    {{"ps", 1}}, command + servers + "--restarts 1 --save-steps 50");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.out.find("weights_sha256 " + undisturbed(command)),
            done.out.npos)
    << done.out << done.err;
  EXPECT_EQ(returns_in(done.err).size(), 1u) << done.err;
}

TEST_F(LostServers, CountEachExampleOnceWithOtherKindsOfConsistency) {
  for (const auto* kind : {"async", "ssp:2"}) {
    const auto done = run_and_kill(
      {{"ps", 1}}, std::string{training}
                     + "--workers 2 --servers 2 --restarts 1 --save-steps 10 "
                       "--summary s.json --consistency "
                     + kind);
    ASSERT_EQ(done.code, 0) << done.err;
    EXPECT_EQ(returns_in(done.err).size(), 1u) << done.err;
    const auto found = nlohmann::json::parse(text_of("s.json"));
    EXPECT_EQ(found.value("steps", 0), 20 * 12) << kind;
    EXPECT_EQ(found["epochs"].size(), 20u) << kind;
    for (const auto& epoch : found["epochs"])
      EXPECT_EQ(epoch.value("examples", 0), 240) << kind;
  }
}

/// The tasks of a cluster, each started by hand. The first chief is told to end
/// while there is no server, and the second one waits for it.
TEST_F(LostServers, CanBeStartedAgainByHandWhenTheRunIsResumed) {
  const net::reserved_ports ports{3};
  const auto address = [&](std::size_t i) {
    return "127.0.0.1:" + std::to_string(ports.numbers()[i]);
  };
  const net::cluster_spec cluster{
    std::map<std::string, net::cluster_spec::list>{
      {"chief", {address(0)}}, {"worker", {address(1)}}, {"ps", {address(2)}}}};
  const auto start = [&](const std::string& type, const std::string& words) {
    return std::make_unique<background_process>(std::vector<std::string>{
      "/bin/sh", "-c",
      "cd " + folder.string() + " && exec env TROUPE_SECRET=secret TF_CONFIG='"
        + net::write_tf_config(cluster, {type, 0}) + "' " TROUPE_TOOL " "
        + words + " --strategy parameter_server 2>&1"});
  };
  const auto output_until = [](background_process& chief,
                               const std::string& text) {
    std::string output, line;
    while (line.find(text) == line.npos && line != "[no line]")
      output += (line = chief.line()) + "\n";
    return output;
  };
  const auto kill = [](background_process& server) {
    server.signal(SIGKILL);
    server.end();
  };
  const std::string command = "train --data digits:280 --batch 20 --epochs 60 ",
                    resumed = "train --resume m.troupe --restarts 1 ";
  const auto worker = start("worker", command);
  auto server = start("ps", command);
  const auto first =
    start("chief", command
                     + "--consistency sync --restarts 1 --save-steps 5 "
                       "--save m.troupe");
  auto output = output_until(*first, "epoch 2/");
  kill(*server);
  first->signal(SIGTERM);
  output += output_until(*first, "[no line]");
  EXPECT_EQ(first->end(), 130) << output;
  EXPECT_NE(output.find("continue with: troupe train --resume m.troupe"),
            output.npos)
    << output;

  server = start("ps", command);
  const auto second = start("chief", resumed);
  output = output_until(*second, "epoch 10/");
  kill(*server);
  server = start("ps", command);
  output += output_until(*second, "[no line]");
  EXPECT_EQ(second->end(), 0) << output;
  EXPECT_EQ(returns_in(output).size(), 1u) << output;
  EXPECT_NE(output.find("weights_sha256 "
                        + weights_of(command + "--strategy one_device")),
            output.npos)
    << output;
  EXPECT_EQ(worker->end(), 0);
  EXPECT_EQ(server->end(), 0);
}

TEST_F(LostServers, EndTheRunIfThereAreMoreThanRestarts) {
  const auto done = run_and_kill(
    {{"ps", 0}, {"ps", 1}},
    "train --data digits:280 --batch 20 --epochs 2000 --workers 2 --servers 2 "
    "--restarts 1");
  EXPECT_EQ(done.code, 1) << done.err;
  EXPECT_NE(done.err.find("parameter server "), done.err.npos) << done.err;
  EXPECT_NE(done.err.find("all restarts are used up"), done.err.npos)
    << done.err;
  EXPECT_TRUE(returns_in(done.err).empty()) << done.err;
}

TEST_F(LostServers, RejectsOptionsThatDoNotFit) {
  const auto rejects = [&](const std::string& words,
                           std::initializer_list<const char*> texts) {
    expect_rejected("train " + words, 2, texts);
  };
  rejects("--servers 1 --save-steps 0", {"--save-steps"});
  rejects("--save-steps 5", {"--save-steps 5", "--save FILE"});
  rejects("--workers 2 --save-steps 5", {"--save-steps 5", "--save FILE"});
  rejects("--evaluator --save m.troupe", {"--evaluator", "--servers"});
  rejects("--servers 1 --save-steps 5", {"--save-steps 5", "--save FILE"});
  rejects("--workers 2 --servers 2 --replication 2 --restarts 1 --save-steps 5",
          {"--save-steps 5", "--replication 2", "--save FILE"});
  rejects("--servers 1 --evaluator", {"--evaluator", "--save FILE"});
}

} // namespace
