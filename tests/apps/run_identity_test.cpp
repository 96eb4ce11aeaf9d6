#include "background.hpp"
#include "troupe/models/description.hpp"
#include "troupe/models/layers.hpp"
#include "troupe/net/cluster/cluster_spec.hpp"
#include "troupe/net/cluster/tf_config.hpp"
#include "troupe/net/io/reserved_ports.hpp"
#include "troupe/training/model.hpp"
#include "worker_test.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

// A run keeps its model, its data and the columns of its table by value. A
// change of the files meanwhile changes no weight, or is refused. The mistakes
// S0 to S9 are listed in tests/training/loop/fit/new_user_results_test.cpp.

namespace {

using namespace troupe;

/// A table of two numbers and the sign of the first one.
struct sign_table {
  std::vector<std::pair<double, double>> rows;

  sign_table() {
    std::mt19937 random{1};
    for (int i = 0; i < 300; ++i) {
      const auto draw = [&] { return double(random() % 2001) / 1000 - 1; };
      const auto a = draw(), b = draw();
      rows.emplace_back(a, b);
    }
  }

  /// @param columns names of the columns, separated by commas.
  std::string text(const std::string& columns) const {
    std::string out = columns + "\n";
    for (const auto& [a, b] : rows) {
      std::istringstream names{columns};
      std::string line;
      for (std::string name; std::getline(names, name, ',');)
        line += (line.empty() ? "" : ",")
                + (name == "a"   ? std::to_string(a)
                   : name == "b" ? std::to_string(b)
                                 : std::to_string(int(a > 0)));
      out += line + "\n";
    }
    return out;
  }

  /// Returns the fraction of rows for which an output of `troupe predict` has
  /// the right class.
  double accuracy(const std::string& output) const {
    std::istringstream lines{output};
    std::string line;
    std::getline(lines, line);
    double right = 0;
    for (const auto& [a, b] : rows) {
      std::getline(lines, line);
      const auto comma = line.find(',');
      right += std::atoi(line.c_str() + comma + 1) == int(a > 0);
    }
    return right / double(rows.size());
  }
};

class NewUserTables : public tool_test {
protected:
  NewUserTables() {
    put("t.csv", table.text("a,b,kind"));
    put("m.json", R"({"version": 1, "name": "t", "input": [2],
                      "layers": [{"type": "dense", "units": 2}]})");
  }

  const sign_table table;
  const std::string train = "train --model m.json --data csv:t.csv --epochs 20 "
                            "--batch 10 --learning-rate 0.05 ";
};

TEST_F(NewUserTables, S5PredictFindsTheColumnsByName) {
  ASSERT_EQ(troupe(train + "--quiet --save m.troupe").code, 0);
  for (const std::string columns :
       {"a,b,kind", "b,a,kind", "kind,b,a", "a,kind,b", "b,a"})
    for (const std::string form : {"", ":"}) {
      put("p.csv", table.text(columns));
      const auto done =
        troupe("predict --model m.troupe --data csv:p.csv" + form);
      EXPECT_EQ(done.code, 0) << done.err;
      EXPECT_GT(table.accuracy(done.out), 0.95) << columns;
    }
  put("p.csv", table.text("x,y,kind"));
  expect_rejected("predict --model m.troupe --data csv:p.csv", 2,
                  {"p.csv has no column \"a\" for the inputs: there are \"x\", "
                   "\"y\", \"kind\""});
}

TEST_F(NewUserTables, S5ResumeFindsTheColumnsByName) {
  const auto undisturbed = weights_of(train);
  for (const std::string columns : {"b,a,kind", "kind,b,a", "a,kind,b"}) {
    put("t.csv", table.text("a,b,kind"));
    ASSERT_EQ(troupe(train + "--quiet --max-steps 30 --save m.troupe").code,
              130);
    put("t.csv", table.text(columns));
    EXPECT_EQ(weights_of("train --resume m.troupe"), undisturbed) << columns;
  }
}

TEST_F(NewUserTables, ResumeRefusesOtherNumbersAndOtherNames) {
  ASSERT_EQ(troupe(train + "--quiet --max-steps 30 --save m.troupe").code, 130);
  // The numbers of the columns are exchanged, under the same names.
  const auto text = table.text("b,a,kind");
  put("t.csv", "a,b,kind" + text.substr(text.find('\n')));
  expect_rejected("train --resume m.troupe", 2,
                  {"the first batch of this dataset has other values",
                   "resume with the same data in the same order"});
  put("t.csv", table.text("x,y,kind"));
  expect_rejected("train --resume m.troupe", 2,
                  {"t.csv has no column \"a\" for the inputs"});
}

class RunIdentity : public worker_test {
protected:
  /// Writes a model whose hidden layer has this activation.
  void put_model(const std::string& activation,
                 const std::string& name = "a.json") const {
    put(name, R"({"version": 1, "name": "t", "input": [28, 28, 1], "layers": [
      {"type": "flatten"},
      {"type": "dense", "units": 16, "activation": ")"
                + activation + R"("}, {"type": "dense", "units": 10}]})");
  }

  const std::string train =
    "train --model a.json --data digits:280 --batch 20 ";
};

TEST_F(RunIdentity, AResumedRunHasTheModelOfItsFile) {
  put_model("relu");
  const std::string run = train + "--epochs 2 ";
  const auto undisturbed = weights_of(run);
  for (const std::string kind : {"--strategy one_device ",
                                 "--workers 1 --servers 1 --consistency sync "})
    for (const bool removes : {false, true}) {
      SCOPED_TRACE(kind);
      put_model("relu");
      const auto cut =
        troupe(run + kind + "--quiet --max-steps 5 --save m.troupe");
      ASSERT_EQ(cut.code, 130) << cut.err;
      if (removes)
        std::filesystem::remove(folder / "a.json");
      else
        put_model("none");
      EXPECT_EQ(weights_of("train --resume m.troupe"), undisturbed);
    }
}

TEST_F(RunIdentity, ARunThatBeginsWithAFileHasItsModel) {
  put_model("relu");
  ASSERT_EQ(troupe(train + "--epochs 1 --quiet --save m.troupe").code, 0);
  const std::string more = " --epochs 2 --batch 20 ";
  const auto in_one = weights_of("train --init m.troupe --model a.json" + more),
             in_two = weights_of("train --init m.troupe --model a.json" + more
                                 + "--replicas 2");
  EXPECT_NE(in_one, in_two);
  for (const bool removes : {false, true}) {
    if (removes)
      std::filesystem::remove(folder / "a.json");
    else
      put_model("none");
    EXPECT_EQ(weights_of("train --init m.troupe" + more), in_one);
    EXPECT_EQ(weights_of("train --init m.troupe --workers 2" + more), in_two);
    EXPECT_EQ(weights_of("train --init m.troupe --workers 1 --servers 1 "
                         "--consistency sync"
                         + more),
              in_one);
  }
  // The option is a model that the user wants now.
  put_model("none");
  const auto other = summary_of("train --init m.troupe --model a.json" + more);
  EXPECT_NE(other["weights_sha256"], in_one);
}

TEST_F(RunIdentity, ARunBeginsWithAModelThatAProgramHasSaved) {
  put("line.csv", "a,b,y\n1,2,3\n2,0,2\n0,4,4\n3,3,6\n1,1,2\n");
  const models::model_description net{
    .name = "line", .input = {2}, .layers = models::stack(models::dense{1})};
  put("line.json", models::to_json_text(net));
  model saved{net, sgd{}, {.loss = "mean_squared_error"}};
  saved.save(folder / "p.troupe");
  const std::string of_file = "train --init p.troupe --data csv:line.csv ",
                    more = " --epochs 2 --batch 2 ";
  const auto begun = summary_of(of_file + more);
  EXPECT_EQ(begun["model"], "line");
  EXPECT_EQ(begun["loss"], "mean_squared_error");
  EXPECT_EQ(begun["weights_sha256"],
            weights_of(of_file
                       + "--model line.json --loss mean_squared_error "
                         "--precision float32"
                       + more));
  EXPECT_EQ(
    weights_of(of_file + "--workers 1 --servers 1 --consistency sync" + more),
    begun["weights_sha256"]);
  expect_rejected("train --init p.troupe", 2,
                  {"--init p.troupe: the file does not say on what its model "
                   "was trained; give --data"});
  put("bad.troupe", "no model");
  expect_rejected("train --init bad.troupe --data csv:line.csv", 1,
                  {"bad.troupe"});
}

TEST_F(RunIdentity, AWorkerThatIsStartedAgainHasTheModelOfTheRun) {
  for (const std::string kind :
       {"--workers 2 ", "--workers 2 --servers 1 --consistency sync "}) {
    SCOPED_TRACE(kind);
    put_model("relu");
    const std::string run = train + "--epochs 100 ";
    const auto undisturbed = weights_of(run + "--replicas 2");
    child_options options;
    bool sent = false;
    options.on_error_output = [&](pid_t tool, const std::string& err) {
      if (sent || err.find("epoch 1/") == err.npos)
        return;
      put_model("none");
      const auto worker =
        child_with(tool, "\"task\":{\"index\":1,\"type\":\"worker\"}");
      EXPECT_GT(worker, 0);
      if (worker > 0)
        send(worker, SIGKILL);
      sent = true;
    };
    const auto done = troupe(run + kind + "--restarts 2", options);
    EXPECT_EQ(done.code, 0) << done.err;
    EXPECT_TRUE(sent);
    EXPECT_NE(done.err.find("worker 1 was killed; it is started again"),
              done.err.npos)
      << done.err;
    if (kind.find("--servers") == kind.npos) {
      EXPECT_NE(
        done.err.find("a process has joined; the job goes on with 2 processes"),
        done.err.npos)
        << done.err;
    }
    EXPECT_NE(done.out.find("weights_sha256 " + undisturbed), done.out.npos)
      << done.out << done.err;
  }
}

/// A cluster of a chief, one server and two workers, each in its own folder.
class ServersInFolders : public RunIdentity {
protected:
  /// Trains with the command. Worker 1 is in the folder B, the others in A.
  /// @returns the exit code and output of the chief.
  outcome run(const std::string& command) const {
    const net::reserved_ports ports{4};
    const auto address = [&](std::size_t i) {
      return "127.0.0.1:" + std::to_string(ports.numbers()[i]);
    };
    const net::cluster_spec cluster{
      std::map<std::string, net::cluster_spec::list>{
        {"chief", {address(0)}},
        {"worker", {address(1), address(2)}},
        {"ps", {address(3)}}}};
    const auto in_folder = [&](const char* name,
                               const net::cluster_task& task) {
      return std::vector<std::string>{
        "/bin/sh", "-c",
        "cd " + (folder / name).string()
          + " && exec env TROUPE_SECRET=secret TF_CONFIG='"
          + net::write_tf_config(cluster, task) + "' " TROUPE_TOOL " " + command
          + " --strategy parameter_server --consistency sync"};
    };
    const auto in_background = [&](const char* name,
                                   const net::cluster_task& task) {
      return std::make_unique<background_process>(in_folder(name, task));
    };
    const auto server = in_background("A", {"ps", 0}),
               first = in_background("A", {"worker", 0}),
               second = in_background("B", {"worker", 1});
    return run_child(in_folder("A", {"chief", 0}));
  }

  void SetUp() override {
    std::filesystem::create_directory(folder / "A");
    std::filesystem::create_directory(folder / "B");
  }
};

TEST_F(ServersInFolders, AWorkerGetsTheModelOfTheChief) {
  put_model("relu", "A/a.json");
  put_model("none", "B/a.json");
  std::filesystem::copy(folder / "A/a.json", folder / "a.json");
  const auto expected = weights_of(train + "--epochs 2 --replicas 2");
  const auto done = run(train + "--epochs 2");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.out.find("weights_sha256 " + expected), done.out.npos)
    << done.out;
}

TEST_F(ServersInFolders, AWorkerWithOtherDataIsRefused) {
  const sign_table table;
  put("A/t.csv", table.text("a,b,kind"));
  auto other = table;
  for (auto& [a, b] : other.rows)
    a = -a;
  put("B/t.csv", other.text("a,b,kind"));
  for (const auto* name : {"A/m.json", "B/m.json", "m.json"})
    put(name, R"({"version": 1, "name": "t", "input": [2],
                  "layers": [{"type": "dense", "units": 2}]})");
  const std::string command =
    "train --model m.json --data csv:t.csv --batch 10 --epochs 2";
  const auto refused = run(command);
  EXPECT_EQ(refused.code, 1) << refused.out;
  EXPECT_NE(refused.err.find("this worker has \"hash of the first batch: "),
            refused.err.npos)
    << refused.err;
  EXPECT_NE(refused.err.find("all tasks of a cluster must train on the same "
                             "data"),
            refused.err.npos)
    << refused.err;
  // The columns of a worker's table may be in another order.
  put("B/t.csv", table.text("kind,b,a"));
  put("t.csv", table.text("a,b,kind"));
  const auto done = run(command);
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(
    done.out.find("weights_sha256 " + weights_of(command + " --replicas 2")),
    done.out.npos)
    << done.out;
}

} // namespace
