#include "background.hpp"
#include "troupe/net/cluster/cluster_spec.hpp"
#include "troupe/net/cluster/tf_config.hpp"
#include "troupe/net/io/reserved_ports.hpp"
#include "troupe/tests/support/sanitizers.hpp"
#include "worker_test.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

// `troupe train` with parameter servers: a chief, workers and servers, each a
// process.

namespace {

using namespace troupe;

class TrainServers : public worker_test {
protected:
  static constexpr auto training =
    "train --data digits:280 --batch 20 --epochs 3 ";

  inline static const std::string clicks =
    "train --model m.json --data clicks:3500 --batch 100 --optimizer adagrad ";

  /// Makes the model of `clicks`, which has a table.
  void put_model_with_table() const {
    put("m.json", R"({"version": 1, "name": "m", "input": [13],
      "categories": 26, "layers": [
      {"type": "category_embedding", "rows": 100000, "units": 2},
      {"type": "dense", "units": 1}]})");
  }

  std::string undisturbed(int replicas) const {
    return weights_of(std::string{training}
                      + "--strategy one_device --replicas "
                      + std::to_string(replicas));
  }

  /// Process id of a task that the tool has started. Zero: there is none.
  static pid_t task_of(pid_t tool, const std::string& type, int index) {
    return child_with(tool, "\"task\":{\"index\":" + std::to_string(index)
                              + ",\"type\":\"" + type + "\"}");
  }

  static std::size_t count(const std::string& text, const std::string& what) {
    std::size_t out = 0;
    for (auto at = text.find(what); at != text.npos; at = text.find(what, at))
      ++out, at += what.size();
    return out;
  }

  /// Runs the tool, and kills servers one after the other. The first one is
  /// killed when the first epoch has ended, each other one when all copies are
  /// in sync again.
  outcome run_and_kill(const std::vector<int>& servers,
                       const std::string& command) const {
    child_options options;
    std::size_t killed = 0;
    options.on_error_output = [&](pid_t tool, const std::string& err) {
      if (killed == servers.size() || err.find("epoch 1/") == err.npos
          || count(err, "are in sync again") < killed)
        return;
      const auto target = task_of(tool, "ps", servers[killed]);
      ASSERT_GT(target, 0);
      EXPECT_EQ(::kill(target, SIGKILL), 0);
      ++killed;
    };
    const auto done = troupe(command, options);
    EXPECT_EQ(killed, servers.size()) << done.err;
    EXPECT_EQ(count(done.err, "is lost; its copies are replaced"),
              servers.size())
      << done.err;
    return done;
  }

  /// Trains with two servers that have copies, kills servers as `run_and_kill`
  /// does, and checks that no bit has changed. Writes s.json.
  outcome train_and_kill(const std::vector<int>& servers, int restarts,
                         const std::string& command) const {
    const auto expected =
      weights_of(command + "--strategy one_device --replicas 2");
    slow_down(1); // worker 0
    const auto done = run_and_kill(
      servers, command
                 + "--consistency sync --workers 2 --servers 2 --replication 2 "
                   "--faults plan.json --summary s.json --restarts "
                 + std::to_string(restarts));
    EXPECT_EQ(done.code, 0) << done.err;
    EXPECT_NE(done.out.find("weights_sha256 " + expected), done.out.npos)
      << done.out << done.err;
    return done;
  }

  /// Runs the tool, and sends a signal to one task when the first epoch has
  /// ended.
  outcome run_and_send(int signal, const std::string& type, int index,
                       const std::string& command) const {
    child_options options;
    bool sent = false;
    options.on_error_output = [&](pid_t tool, const std::string& err) {
      if (sent || err.find("epoch 1/") == err.npos)
        return;
      sent = true;
      const auto target =
        type == "launcher" ? tool : task_of(tool, type, index);
      ASSERT_GT(target, 0);
      ::kill(target, signal);
    };
    const auto done = troupe(command, options);
    EXPECT_TRUE(sent) << done.err;
    return done;
  }
};

TEST_F(TrainServers, SynchronousRunsHaveTheWeightsOfAsManyReplicas) {
  for (const int workers : {1, 2, 4}) {
    const auto expected = undisturbed(workers);
    for (const int servers : {1, 3}) {
      const auto found = summary_of(
        std::string{training} + "--consistency sync --workers "
        + std::to_string(workers) + " --servers " + std::to_string(servers));
      EXPECT_EQ(found.value("weights_sha256", "none"), expected)
        << workers << " workers, " << servers << " servers";
      EXPECT_EQ(found.value("strategy", ""), "parameter_server");
      EXPECT_EQ(found.value("consistency", ""), "sync");
      EXPECT_EQ(found.value("servers", 0), servers);
      EXPECT_EQ(found.value("workers", 0), workers);
      EXPECT_FALSE(found.contains("mean_staleness"));
    }
  }
}

TEST_F(TrainServers, OneReplicaHasTheWeightsOfOneDevice) {
  const auto expected = undisturbed(1);
  for (const auto* kind : {"ssp:0", "ssp:3", "sync"})
    EXPECT_EQ(weights_of(std::string{training} + "--consistency " + kind),
              expected)
      << kind;
}

TEST_F(TrainServers, EachExampleCountsOnceInEachEpoch) {
  for (const auto* kind : {"async", "ssp:1"}) {
    const auto found = summary_of(
      std::string{training} + "--workers 3 --servers 2 --consistency " + kind);
    ASSERT_EQ(found["epochs"].size(), 3u);
    for (const auto& epoch : found["epochs"])
      EXPECT_EQ(epoch.value("examples", 0), 240) << kind;
    EXPECT_EQ(found.value("steps", 0), 36);
    EXPECT_GE(found.value("mean_staleness", -1.0), 0);
    EXPECT_GE(found.value("largest_staleness", -1),
              found.value("mean_staleness", 0.0));
  }
}

TEST_F(TrainServers, AKilledWorkerIsStartedAgainAndChangesNoBit) {
  const std::string command = "train --data digits:280 --batch 20 --epochs 15 ";
  const auto expected =
    weights_of(command + "--strategy one_device --replicas 2");
  slow_down(2); // worker 1
  const auto done = run_and_send(
    SIGKILL, "worker", 0,
    command
      + "--consistency sync --workers 2 --servers 2 --restarts 1 --faults "
        "plan.json");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.out.find("weights_sha256 " + expected), done.out.npos)
    << done.out << done.err;
  EXPECT_NE(done.err.find("worker 0 was killed; it is started again"),
            done.err.npos)
    << done.err;
  EXPECT_NE(done.err.find("has joined the coordinator again"), done.err.npos)
    << done.err;
}

TEST_F(TrainServers, TheOthersDoTheWorkOfAKilledWorker) {
  const std::string command = "train --data digits:280 --batch 20 --epochs 15 ";
  const auto expected =
    weights_of(command + "--strategy one_device --replicas 3");
  const auto done =
    run_and_send(SIGKILL, "worker", 1,
                 command + "--consistency sync --workers 3 --servers 1");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.out.find("weights_sha256 " + expected), done.out.npos)
    << done.out << done.err;
  EXPECT_NE(done.err.find("was lost"), done.err.npos) << done.err;
}

TEST_F(TrainServers, AKilledServerWithACopyChangesNoBit) {
  const std::string command = "train --data digits:280 --batch 20 --epochs 20 ";
  const auto expected =
    weights_of(command + "--strategy one_device --replicas 2");
  for (const int server : {0, 2}) {
    const auto done = run_and_send(
      SIGKILL, "ps", server,
      command
        + "--consistency sync --workers 2 --servers 3 --replication 2 "
          "--summary s.json");
    EXPECT_EQ(done.code, 0) << done.err;
    EXPECT_NE(done.err.find("is lost; its copies are replaced"), done.err.npos)
      << done.err;
    EXPECT_NE(done.out.find("weights_sha256 " + expected), done.out.npos)
      << done.out << done.err;
    const auto found = nlohmann::json::parse(text_of("s.json"));
    EXPECT_EQ(found.value("replication", 0), 2);
    EXPECT_EQ(found.value("steps", 0), 20 * 12);
  }
}

/// The last kill ends the server that has been promoted. Its shards are those
/// of one that was started again.
TEST_F(TrainServers, AKilledServerIsStartedAgainAndCanTakeOver) {
  const auto done = train_and_kill(
    {0, 1}, 1, "train --data digits:280 --batch 20 --epochs 20 ");
  for (const auto* text :
       {"ps 0 was killed; it is started again", "has joined again",
        "ps 1 was killed and is not started again, because all restarts are "
        "used up"})
    EXPECT_EQ(count(done.err, text), 1u) << text << '\n' << done.err;
  const auto found = nlohmann::json::parse(text_of("s.json"));
  EXPECT_EQ(found.value("lost_servers", 0), 2);
  EXPECT_EQ(found.value("copies_in_sync", 0), 1);
  EXPECT_EQ(found.value("steps", 0), 20 * 12);
}

TEST_F(TrainServers, ServersThatAreKilledOneAfterTheOtherHaveAllCopiesAgain) {
  const auto done = train_and_kill(
    {1, 0, 1}, 3, "train --data digits:280 --batch 20 --epochs 30 ");
  EXPECT_EQ(count(done.err, "are in sync again"), 3u) << done.err;
  const auto found = nlohmann::json::parse(text_of("s.json"));
  EXPECT_EQ(found.value("lost_servers", 0), 3);
  EXPECT_EQ(found.value("copies_in_sync", 0), 2);
}

TEST_F(TrainServers, NoExampleIsLostOrCountedTwiceWhenAWorkerIsKilled) {
  for (const auto* kind : {"async", "ssp:2"}) {
    const auto done = run_and_send(
      SIGKILL, "worker", 0,
      std::string{"train --data digits:280 --batch 20 --epochs 20 --workers 2 "
                  "--servers 2 --restarts 1 --summary summary.json "
                  "--consistency "}
        + kind);
    ASSERT_EQ(done.code, 0) << done.err;
    EXPECT_NE(done.err.find("was killed"), done.err.npos) << done.err;
    const auto found = nlohmann::json::parse(text_of("summary.json"));
    ASSERT_EQ(found["epochs"].size(), 20u);
    for (const auto& epoch : found["epochs"])
      EXPECT_EQ(epoch.value("examples", 0), 240) << kind;
  }
}

TEST_F(TrainServers, AWorkerThatIsToldToEndIsALostOne) {
  const auto done = run_and_send(
    SIGTERM, "worker", 1,
    "train --data digits:280 --batch 20 --epochs 20 --workers 2 --servers 1");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.err.find("was lost"), done.err.npos) << done.err;
}

TEST_F(TrainServers, ARunWithoutWorkersEnds) {
  const auto done = run_and_send(
    SIGKILL, "worker", 0,
    "train --data digits:280 --batch 20 --epochs 2000 --servers 1");
  EXPECT_EQ(done.code, 1) << done.err;
  EXPECT_NE(done.err.find("no worker is left; the last one was worker 0: "
                          "signal 9"),
            done.err.npos)
    << done.err;
}

/// The chief completes the steps that have begun, and saves. The resumed run
/// has the weights of an undisturbed one.
TEST_F(TrainServers, ARunWithoutWorkersIsSaved) {
  const std::string run = "train --data digits:280 --batch 20 --epochs 20 "
                          "--workers 1 --servers 1 --consistency sync ";
  const auto expected = weights_of(run);
  for (const std::size_t restarts : {0, 1}) {
    child_options options;
    std::vector<pid_t> killed;
    options.on_error_output = [&](pid_t tool, const std::string& err) {
      const auto target = task_of(tool, "worker", 0);
      if (killed.size() > restarts || err.find("epoch 1/") == err.npos
          || target == 0 || std::ranges::count(killed, target) > 0)
        return;
      ::kill(target, SIGKILL);
      killed.push_back(target);
    };
    const auto done = troupe(
      run + "--save z.troupe --restarts " + std::to_string(restarts), options);
    SCOPED_TRACE(done.err);
    EXPECT_EQ(killed.size(), restarts + 1);
    EXPECT_EQ(done.code, 1);
    EXPECT_NE(done.err.find("no worker is left; the last one was worker 0: "
                            "signal 9 (Killed); the run is saved in z.troupe"),
              done.err.npos);
    EXPECT_EQ(weights_of("train --resume z.troupe"), expected);
    std::filesystem::remove(folder / "z.troupe");
  }
}

/// The tasks of a cluster, each started by hand. The workers and servers wait
/// for the next chief if the first one is interrupted.
TEST_F(TrainServers, TasksOfAClusterEndWithTheirChief) {
  const net::reserved_ports ports{3};
  const auto address = [&](std::size_t i) {
    return "127.0.0.1:" + std::to_string(ports.numbers()[i]);
  };
  const net::cluster_spec cluster{
    std::map<std::string, net::cluster_spec::list>{
      {"chief", {address(0)}}, {"worker", {address(1)}}, {"ps", {address(2)}}}};
  const auto start = [&](const std::string& type, const std::string& options) {
    return std::make_unique<background_process>(std::vector<std::string>{
      "/bin/sh", "-c",
      "cd " + folder.string() + " && exec env TROUPE_SECRET=secret TF_CONFIG='"
        + net::write_tf_config(cluster, {type, 0}) + "' " TROUPE_TOOL " train "
        + options + " 2>&1"});
  };
  const auto output_of = [](background_process& chief) {
    std::string output;
    for (auto line = chief.line(); line != "[no line]"; line = chief.line())
      output += line + "\n";
    return output;
  };
  const std::string resumed = "--strategy parameter_server --resume m.troupe";
  auto worker = start("worker", resumed), server = start("ps", resumed);
  const auto first =
    start("chief", std::string{training}.substr(std::strlen("train "))
                     + "--strategy parameter_server --consistency sync "
                       "--max-steps 17 --save m.troupe");
  auto output = output_of(*first);
  EXPECT_EQ(first->end(), 130) << output;
  const auto second = start("chief", resumed);
  output = output_of(*second);
  EXPECT_EQ(second->end(), 0) << output;
  EXPECT_NE(output.find("weights_sha256 " + undisturbed(1)), output.npos)
    << output;
  EXPECT_EQ(worker->end(), 0);
  EXPECT_EQ(server->end(), 0);
}

/// The address of the chief is that of its task in the cluster.
TEST_F(TrainServers, TheChiefTellsTheStatusOfItsServers) {
  for (const int copies : {1, 2}) {
    const net::reserved_ports ports{4};
    const auto address = [&](std::size_t i) {
      return "127.0.0.1:" + std::to_string(ports.numbers()[i]);
    };
    const net::cluster_spec cluster{
      std::map<std::string, net::cluster_spec::list>{
        {"chief", {address(0)}},
        {"worker", {address(1)}},
        {"ps", {address(2), address(3)}}}};
    const auto in_cluster = [&](const net::cluster_task& task,
                                const std::string& words) {
      return std::vector<std::string>{
        "/bin/sh", "-c",
        "cd " + folder.string()
          + " && exec env TROUPE_SECRET=secret TF_CONFIG='"
          + net::write_tf_config(cluster, task) + "' " TROUPE_TOOL " " + words
          + " 2>&1"};
    };
    const auto start = [&](const net::cluster_task& task) {
      return std::make_unique<background_process>(in_cluster(
        task, "train --data digits:280 --batch 20 --epochs 20000 --strategy "
              "parameter_server --consistency async --replication "
                + std::to_string(copies)));
    };
    const auto chief = start({"chief", 0}), worker = start({"worker", 0}),
               first = start({"ps", 0}), second = start({"ps", 1});
    std::string output, line;
    while (line.find("epoch 1/") == line.npos && line != "[no line]")
      output += (line = chief->line()) + "\n";
    const auto shown =
      run_child(in_cluster({"worker", 0}, "status " + address(0)));
    EXPECT_EQ(shown.code, 0) << shown.out << output;
    for (const auto& text :
         {std::string{"2 parameter servers, 0 processes lost\n"}, address(2),
          address(3), std::string{"MiB"},
          std::to_string(copies) + " of " + std::to_string(copies)})
      EXPECT_NE(shown.out.find(text), shown.out.npos) << text << shown.out;
    EXPECT_EQ(shown.out.find("does not answer"), shown.out.npos) << shown.out;
  }
}

TEST_F(TrainServers, ARunEndsWithTheNameOfAKilledServer) {
  const auto done =
    run_and_send(SIGKILL, "ps", 1,
                 "train --data digits:280 --batch 20 --epochs 2000 "
                 "--workers 2 --servers 2");
  EXPECT_EQ(done.code, 1) << done.err;
  EXPECT_NE(done.err.find("parameter server 1"), done.err.npos) << done.err;
  EXPECT_EQ(done.err.find("was killed"), done.err.npos) << done.err;
}

TEST_F(TrainServers, ARunEndsWithItsChief) {
  const auto done = run_and_send(
    SIGKILL, "chief", 0,
    "train --data digits:280 --batch 20 --epochs 2000 --servers 1");
  EXPECT_EQ(done.code, 1) << done.err;
  EXPECT_NE(done.err.find("chief 0: signal 9"), done.err.npos) << done.err;
}

/// A signal to the command, or to the chief alone.
TEST_F(TrainServers, AnInterruptedRunGoesOnToTheSameWeights) {
  const std::string command = "train --data digits:280 --batch 20 --epochs 20 ";
  const auto expected =
    weights_of(command + "--strategy one_device --replicas 2");
  for (const auto& [signal, type] : {std::pair{SIGINT, "launcher"},
                                     {SIGTERM, "launcher"},
                                     {SIGTERM, "chief"}}) {
    SCOPED_TRACE(std::to_string(signal) + " to the " + type);
    const auto cut = run_and_send(
      signal, type, 0, command + "--consistency sync --workers 2 --servers 2");
    ASSERT_EQ(cut.code, 130) << cut.err;
    EXPECT_NE(cut.err.find("continue with: troupe train --resume "
                           "interrupted.troupe"),
              cut.err.npos)
      << cut.err;
    EXPECT_EQ(cut.err.find("troupe: "), cut.err.npos) << cut.err;
    EXPECT_EQ(weights_of("train --resume interrupted.troupe"), expected);
    std::filesystem::remove(folder / "interrupted.troupe");
  }
}

TEST_F(TrainServers, AResumedRunMayHaveOtherWorkersAndServers) {
  const auto expected = undisturbed(2);
  const auto done =
    troupe(std::string{training}
           + "--consistency sync --workers 2 --servers 2 --max-steps 17 "
             "--save m.troupe --summary cut.json");
  ASSERT_EQ(done.code, 130) << done.err;
  EXPECT_EQ(done.out, "");
  const auto cut = nlohmann::json::parse(text_of("cut.json"));
  EXPECT_EQ(cut.value("end", ""), "max_steps");
  EXPECT_EQ(cut.value("steps", 0), 17);
  for (const auto* options :
       {"", "--workers 3 --servers 1", "--servers 3 --replication 2",
        "--strategy one_device"}) {
    const auto found = summary_of(
      std::string{"train --resume m.troupe --save other.troupe "} + options);
    EXPECT_EQ(found.value("weights_sha256", ""), expected) << options;
    EXPECT_EQ(found.value("steps", 0), 36) << options;
    EXPECT_EQ(found["epochs"].size(), 3u) << options;
  }
  expect_rejected("train --resume m.troupe --consistency async", 2,
                  {"--consistency async", "give sync"});
  expect_rejected("train --resume m.troupe --epochs 1", 2,
                  {"--epochs 1", "has completed 1 epoch"});
}

TEST_F(TrainServers, EachExampleCountsOnceInARunThatIsResumed) {
  for (const auto* kind : {"async", "ssp:1"}) {
    const auto cut = troupe(std::string{training}
                            + "--workers 2 --servers 2 --max-steps 17 "
                              "--quiet --save m.troupe --consistency "
                            + kind);
    ASSERT_EQ(cut.code, 130) << cut.err;
    const auto found = summary_of("train --resume m.troupe --workers 3");
    ASSERT_EQ(found["epochs"].size(), 3u);
    for (const auto& epoch : found["epochs"])
      EXPECT_EQ(epoch.value("examples", 0), 240) << kind;
    EXPECT_EQ(found.value("steps", 0), 36) << kind;
    EXPECT_EQ(found.value("workers", 0), 3) << kind;
  }
}

TEST_F(TrainServers, ASavedModelPredicts) {
  const auto done = troupe(std::string{training}
                           + "--servers 2 --workers 2 --save model.troupe");
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(
    troupe("predict --model model.troupe --data digits:280 --count 3").code, 0);
  expect_rejected("train --resume model.troupe", 2, {"the run is complete"});
}

/// The table is on both servers, and the workers read the rows of their
/// batches.
TEST_F(TrainServers, ModelsWithTablesHaveTheWeightsOfOneProcess) {
  if (test::has_address_sanitizer)
    GTEST_SKIP() << "2.6 million rows of a table take minutes";
  put_model_with_table();
  const auto alone = summary_of(clicks + "--strategy one_device --replicas 2");
  const auto found = summary_of(
    clicks + "--workers 2 --servers 2 --consistency sync --save m.troupe");
  EXPECT_EQ(found["weights_sha256"], alone["weights_sha256"]);
  EXPECT_EQ(found["test_auc"], alone["test_auc"]);
  EXPECT_GT(found.value("test_auc", 0.0), 0.5);
  ASSERT_EQ(troupe(clicks
                   + "--workers 2 --servers 2 --consistency sync --quiet "
                     "--max-steps 7 --save cut.troupe")
              .code,
            130);
  EXPECT_EQ(weights_of("train --resume cut.troupe --servers 3"),
            alone.value("weights_sha256", ""));
  const auto shown = troupe(clicks + "--workers 2 --servers 2");
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_NE(shown.out.find("test auc 0."), shown.out.npos) << shown.out;
  EXPECT_EQ(
    troupe("predict --model m.troupe --data clicks:3500 --count 3").code, 0);
}

/// One replica makes the steps of one device. With two, each changes the rows
/// of its part of a batch by an update of its own.
TEST_F(TrainServers, TablesHaveAConsistencyOfTheirOwn) {
  if (test::has_address_sanitizer)
    GTEST_SKIP() << "2.6 million rows of a table take minutes";
  put_model_with_table();
  EXPECT_EQ(weights_of(clicks
                       + "--servers 2 --consistency sync "
                         "--table-consistency async"),
            weights_of(clicks));
  const auto found =
    summary_of(clicks
               + "--workers 2 --servers 2 --consistency sync-backup:1 "
                 "--table-consistency ssp:1");
  EXPECT_EQ(found.value("consistency", ""), "sync-backup:1");
  EXPECT_EQ(found.value("table_consistency", ""), "ssp:1");
  EXPECT_GT(found.value("test_auc", 0.0), 0.5);
  EXPECT_GE(found.value("mean_staleness", -1.0), 0);
  // Updates of both replicas, in a step and in those before and behind it.
  EXPECT_LE(found.value("largest_staleness", 9), 5);
  EXPECT_FALSE(summary_of(clicks + "--servers 1 --consistency sync")
                 .contains("table_consistency"));
}

/// Both servers are killed, so the last one has got its rows from a copy.
TEST_F(TrainServers, AKilledServerWithATableChangesNoBit) {
  if (test::has_address_sanitizer)
    GTEST_SKIP() << "2.6 million rows of a table take minutes";
  put_model_with_table();
  train_and_kill({0, 1}, 1, clicks + "--epochs 10 ");
  const auto found = nlohmann::json::parse(text_of("s.json"));
  EXPECT_EQ(found.value("lost_servers", 0), 2);
  EXPECT_EQ(found.value("copies_in_sync", 0), 1);
}

TEST_F(TrainServers, OneWorkerTrainsSeveralAsynchronousReplicas) {
  const auto done = troupe("train --data digits:280 --batch 20 --epochs 2 "
                           "--servers 1 --workers 1 --replicas 3 --summary "
                           "s.json");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(nlohmann::json::parse(text_of("s.json")).value("steps", 0), 24);
}

TEST_F(TrainServers, RejectsOptionsThatDoNotFit) {
  const auto rejects = [&](const std::string& words,
                           std::initializer_list<const char*> texts) {
    expect_rejected("train " + words, 2, texts);
  };
  rejects("--servers 0", {"--servers"});
  rejects("--servers 2 --strategy mirrored --devices cpu:0,cpu:1",
          {"--servers 2", "--strategy parameter_server"});
  rejects("--consistency sync --strategy one_device", {"--consistency sync"});
  rejects("--consistency ssp", {"--consistency \"ssp\"", "ssp:2"});
  rejects("--consistency ssp:-1", {"--consistency \"ssp:-1\""});
  rejects("--consistency sync-backup:2 --workers 2",
          {"--consistency sync-backup:2", "2 replicas"});
  rejects("--table-consistency ssp",
          {"--table-consistency \"ssp\"", "give async or ssp:S"});
  rejects("--consistency sync --table-consistency sync",
          {"--table-consistency sync", "give async or ssp:S"});
  for (const auto* kind : {"ssp:1", "async"})
    rejects(std::string{"--table-consistency "} + kind,
            {"--table-consistency ", kind, "with --consistency async;",
             "--consistency sync or sync-backup"});
  rejects("--consistency ssp:2 --table-consistency ssp:1",
          {"--table-consistency ssp:1", "--consistency ssp:2"});
  rejects("--table-consistency ssp:1 --strategy one_device",
          {"--table-consistency ssp:1", "--strategy parameter_server"});
  rejects("--consistency sync --table-consistency ssp:1",
          {"--table-consistency ssp:1", "the model mlp has no table"});
  rejects("--servers 1 --devices cpu:0,cpu:1", {"--devices"});
  rejects("--servers 2 --replication 3",
          {"--replication 3", "there are 2", "--servers 3"});
  rejects("--servers 2 --replication 0", {"--replication"});
  rejects("--replication 1 --strategy one_device",
          {"--replication 1", "--strategy parameter_server"});
  rejects("--servers 1 --patience 2", {"--patience 2"});
  rejects("--servers 1 --transport shm", {"--transport"});
  rejects("--servers 1 --on-sigterm leave", {"--on-sigterm leave"});
  rejects("--servers 1 --join", {"--join"});
}

} // namespace
