#include "background.hpp"
#include "troupe/net/cluster/cluster_spec.hpp"
#include "troupe/net/cluster/tf_config.hpp"
#include "troupe/net/io/reserved_ports.hpp"
#include "troupe/tests/support/becomes_true.hpp"
#include "troupe/tests/support/sanitizers.hpp"
#include "troupe/tests/support/variable_is.hpp"
#include "worker_test.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <system_error>

namespace {

using namespace troupe;
using troupe::test::becomes_true;

class Workers : public worker_test {
protected:
  static constexpr auto job = "train --data digits:280 --epochs 2 --batch 20 ";
};

TEST_F(Workers, EndWithTheWeightsOfOneProcessOverEachTransport) {
  const auto expected =
    weights_of(std::string{job} + "--strategy one_device --replicas 4");
  EXPECT_EQ(weights_of(std::string{job} + "--strategy mirrored --replicas 4"),
            expected);
  EXPECT_EQ(weights_of(std::string{job} + "--workers 1 --replicas 4"),
            expected);
  for (const std::string workers : {"2", "4"})
    for (const std::string transport : {"shm", "tcp", "tls"}) {
      const auto found = summary_of(job + ("--replicas 4 --workers " + workers)
                                    + " --transport " + transport);
      EXPECT_EQ(found.value("weights_sha256", "none"), expected)
        << workers << " workers, " << transport;
      EXPECT_EQ(found.value("transport", "none"), transport);
      EXPECT_EQ(found.value("workers", 0), std::stoi(workers));
      EXPECT_EQ(found.value("replicas", 0), 4);
    }
}

TEST_F(Workers, PrintTheLinesOfOneProcess) {
  const auto single = troupe(std::string{job} + "--replicas 2");
  const auto distributed = troupe(std::string{job} + "--workers 2");
  EXPECT_EQ(distributed.code, 0) << distributed.err;
  const auto hash = [](const outcome& x) {
    return x.out.substr(x.out.find("weights_sha256"));
  };
  EXPECT_EQ(hash(distributed), hash(single));
  EXPECT_EQ(std::ranges::count(distributed.out, '\n'),
            std::ranges::count(single.out, '\n'));
  EXPECT_EQ(std::ranges::count(distributed.err, '\n'),
            std::ranges::count(single.err, '\n'))
    << distributed.err;
}

TEST_F(Workers, AreThoseOfTfConfigUnderLaunch) {
  const auto expected = weights_of(std::string{job} + "--replicas 2");
  const auto done =
    troupe("launch -n 2 -- " TROUPE_TOOL " " + std::string{job}
           + "--strategy multi_worker_mirrored --summary s.json");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.out.find("[worker 0] weights_sha256 " + expected),
            std::string::npos)
    << done.out;
  EXPECT_EQ(files(), 2u); // both runs wrote a summary
}

TEST_F(Workers, ContinueInAnotherNumberOfProcesses) {
  const auto expected = weights_of(std::string{job} + "--replicas 2");
  const auto cut =
    troupe(std::string{job} + "--workers 2 --max-steps 15 --save m.troupe");
  ASSERT_EQ(cut.code, 130) << cut.err;
  EXPECT_NE(cut.err.find("troupe train --resume m.troupe"), cut.err.npos);
  EXPECT_EQ(weights_of("train --resume m.troupe --save n.troupe"), expected);
  EXPECT_EQ(weights_of("train --resume m.troupe --strategy one_device "
                       "--save o.troupe"),
            expected);
}

TEST_F(Workers, HaveReplicasThatAreNoMultipleOfTheirNumber) {
  const auto four = std::string{job} + "--replicas 4 ";
  const auto expected = weights_of(four + "--strategy one_device");
  EXPECT_EQ(weights_of(four + "--workers 3"), expected);
  const auto launched =
    troupe("launch -n 3 -- " TROUPE_TOOL " " + four
           + "--strategy multi_worker_mirrored --summary s.json");
  EXPECT_EQ(launched.code, 0) << launched.err;
  EXPECT_NE(launched.out.find("[worker 0] weights_sha256 " + expected),
            launched.out.npos)
    << launched.out;
  const auto cut = troupe(four + "--workers 3 --max-steps 15 --save m.troupe");
  ASSERT_EQ(cut.code, 130) << cut.err;
  EXPECT_EQ(weights_of("train --resume m.troupe --save n.troupe"), expected);
  EXPECT_EQ(weights_of("train --resume m.troupe --workers 2 --save o.troupe"),
            expected);
  const auto few = troupe(std::string{job} + "--replicas 2 --workers 3");
  EXPECT_EQ(few.code, 2);
  EXPECT_NE(few.err.find("each of 3 workers needs a replica"), few.err.npos)
    << few.err;
}

TEST_F(Workers, WithUnevenReplicasAreReplacedWhenOneIsKilled) {
  const std::string training =
    "train --data digits:280 --batch 20 --epochs 12 --replicas 5 ";
  const auto expected = weights_of(training + "--strategy one_device");
  slow_down(1);
  for (const int killed : {0, 2}) {
    const auto done =
      run_with_signal(killed, SIGKILL,
                      training + "--workers 3 --restarts 1 --faults plan.json");
    EXPECT_EQ(done.code, 0) << done.err;
    EXPECT_NE(
      done.err.find("a process has joined; the job goes on with 3 processes"),
      done.err.npos)
      << done.err;
    EXPECT_NE(("\n" + done.out).find("\nweights_sha256 " + expected),
              done.out.npos)
      << done.out << done.err;
  }
}

TEST_F(Workers, ContinueWithOtherReplicasIfTheUserAllowsOtherBits) {
  const auto cut =
    troupe(std::string{job} + "--workers 2 --max-steps 15 --save m.troupe");
  ASSERT_EQ(cut.code, 130) << cut.err;
  const auto refused =
    troupe("train --resume m.troupe --replicas 3 --workers 3 --save n.troupe");
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(
    refused.err.find("or --other-replicas if the weights may have other "
                     "bits"),
    refused.err.npos)
    << refused.err;
  const auto found = summary_of("train --resume m.troupe --workers 3 "
                                "--other-replicas --save o.troupe");
  EXPECT_EQ(found.value("replicas", 0), 3);
  EXPECT_EQ(found.value("steps", 0), 24);
  const auto unused = troupe(std::string{job} + "--other-replicas");
  EXPECT_EQ(unused.code, 2);
  EXPECT_NE(unused.err.find("give --resume too"), unused.err.npos)
    << unused.err;
}

TEST_F(Workers, SaveTheRunAfterCtrlC) {
  const auto cut = run_with_signal(-1, SIGINT);
  EXPECT_EQ(cut.code, 130) << cut.err;
  EXPECT_NE(cut.err.find("--resume interrupted.troupe"), cut.err.npos)
    << cut.err;
  EXPECT_EQ(files(), 1u);
  EXPECT_EQ(
    troupe("train --resume interrupted.troupe --quiet --max-steps 3").code,
    130);
}

TEST_F(Workers, GoOnWithTheSameWeightsWhenOneIsKilled) {
  const std::string training =
    "train --data digits:1400 --batch 24 --epochs 6 --replicas ";
  for (const int workers : {2, 3}) {
    const auto count = std::to_string(workers);
    const auto expected =
      weights_of(training + count + " --strategy one_device");
    for (int killed = 0; killed < workers; ++killed) {
      const auto done = run_with_signal(
        killed, SIGKILL, training + count + " --workers " + count);
      EXPECT_EQ(done.code, 0) << done.err;
      EXPECT_NE(done.err.find("worker " + std::to_string(killed)
                              + ": signal 9 (Killed); the others"),
                done.err.npos)
        << done.err;
      // The worker that leads at the end prints the result.
      EXPECT_NE(("\n" + done.out).find("\nweights_sha256 " + expected),
                done.out.npos)
        << "worker " << killed << " of " << workers << '\n'
        << done.out << done.err;
    }
  }
}

/// The third worker cannot know what the two have agreed on, but the tool says
/// that they are dead. They are stopped first, so that it agrees with none of
/// them between the two ends.
TEST_F(Workers, GoOnIfTwoOfThreeAreKilledAtOnce) {
  const std::string training =
    "train --data digits:1400 --batch 24 --epochs 6 --replicas 3 ";
  const auto expected = weights_of(training + "--strategy one_device");
  for (const std::string restarts : {"0", "2"}) {
    child_options options;
    bool has_killed = false;
    options.on_error_output = [&](pid_t tool, const std::string& err) {
      if (has_killed || err.find("epoch 1/") == err.npos)
        return;
      has_killed = true;
      for (const int signal : {SIGSTOP, SIGKILL})
        for (const int worker : {1, 2}) {
          const auto target = process_of(tool, worker);
          ASSERT_GT(target, 0);
          ::kill(target, signal);
        }
    };
    const auto done =
      troupe(training + "--workers 3 --restarts " + restarts, options);
    SCOPED_TRACE(done.out + done.err);
    EXPECT_TRUE(has_killed);
    EXPECT_EQ(done.code, 0);
    EXPECT_NE(done.err.find("the job goes on with 1 process"), done.err.npos);
    EXPECT_EQ(done.err.find("restarts are used up"), done.err.npos);
    EXPECT_NE(done.out.find("weights_sha256 " + expected), done.out.npos);
  }
}

TEST_F(Workers, JoinTheRunningJobWhenTheyAreStartedAgain) {
  const std::string training =
    "train --data digits:280 --batch 20 --epochs 12 --replicas 2 ";
  const auto expected = weights_of(training + "--strategy one_device");
  for (const int killed : {0, 1}) {
    slow_down(1 - killed);
    const auto done =
      run_with_signal(killed, SIGKILL,
                      training
                        + "--workers 2 --restarts 1 --summary s.json --faults "
                          "plan.json");
    EXPECT_EQ(done.code, 0) << done.err;
    // The joiner writes it if it is worker 0.
    EXPECT_EQ(nlohmann::json::parse(text_of("s.json"), nullptr, false)
                .value("transport", "none"),
              "shm");
    EXPECT_NE(done.err.find("warning: worker " + std::to_string(killed)
                            + " was killed; it is started again"),
              done.err.npos)
      << done.err;
    EXPECT_NE(
      done.err.find("a process has joined; the job goes on with 2 processes"),
      done.err.npos)
      << done.err;
    EXPECT_EQ(done.err.find("the others have finished"), done.err.npos)
      << done.err;
    EXPECT_EQ(done.err.find("] epoch"), done.err.npos) << done.err;
    EXPECT_NE(("\n" + done.out).find("\nweights_sha256 " + expected),
              done.out.npos)
      << done.out << done.err;
    EXPECT_EQ(done.out.find("weights_sha256"), done.out.rfind("weights_sha256"))
      << "two processes have written the result";
  }
}

/// Number of sockets that a process has open, which grows during the start of
/// a job.
std::size_t sockets_of(pid_t id) {
  std::size_t out = 0;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator{
         "/proc/" + std::to_string(id) + "/fd", none}) {
    const auto target = std::filesystem::read_symlink(entry, none);
    out += target.string().starts_with("socket:") ? 1 : 0;
  }
  return out;
}

/// Starts a tool in the background, in the folder of the test.
class WorkersInTheBackground : public Workers {
protected:
  std::unique_ptr<background_process> start(const std::string& words) const {
    return std::make_unique<background_process>(std::vector<std::string>{
      "/bin/sh", "-c",
      "cd " + folder.string() + " && exec " TROUPE_TOOL " " + words + " 2>&1"});
  }

  static std::string output_of(background_process& tool) {
    std::string output;
    for (auto line = tool.line(); line != "[no line]"; line = tool.line())
      output += line + "\n";
    return output;
  }
};

/// One of three is killed when it has opened a number of sockets. So it is lost
/// in another phase of the start each time.
TEST_F(WorkersInTheBackground, BeginIfOneIsKilledInAnyPhaseOfTheStart) {
  const std::string training =
    "train --data digits:280 --batch 24 --epochs 3 --replicas 3 ";
  const auto expected = weights_of(training + "--strategy one_device");
  for (std::size_t sockets = 1; sockets < 15; ++sockets) {
    const auto victim = static_cast<int>(sockets % 3);
    const auto tool = start(training + "--workers 3 --restarts 3");
    pid_t target = 0;
    EXPECT_TRUE(becomes_true([&] {
      target = target ? target : process_of(tool->id(), victim);
      return target
             && (sockets_of(target) >= sockets || ::kill(target, 0) != 0);
    }));
    ::kill(target, SIGKILL);
    const auto output = output_of(*tool);
    EXPECT_EQ(tool->end(), 0) << sockets << " sockets\n" << output;
    EXPECT_NE(output.find("weights_sha256 " + expected), output.npos) << output;
  }
}

TEST_F(WorkersInTheBackground, EndAtOnceIfOneIsLostBeforeTheJobBegins) {
  // Generating so many digits takes seconds.
  const auto tool = start("train --data digits:200000 --workers 3");
  pid_t target = 0;
  EXPECT_TRUE(becomes_true([&] {
    target = process_of(tool->id(), 2);
    return target && has_signal(target, "SigCgt", SIGTERM);
  }));
  ::kill(target, SIGKILL);
  const auto output = output_of(*tool);
  EXPECT_EQ(output, "troupe: worker 2: signal 9 (Killed); it was lost before "
                    "the job had begun, and is not started again\n");
  EXPECT_EQ(tool->end(), 1);
}

/// Worker 1 has just been started again when the other one is killed.
TEST_F(WorkersInTheBackground, EndAtOnceIfNoneIsLeftThatHasTheState) {
  const auto tool = start("train --data digits:1400 --batch 20 --epochs 2000 "
                          "--workers 2 --restarts 20");
  for (std::string line; line.find("epoch 1/") == line.npos;)
    ASSERT_NE(line = tool->line(), "[no line]");
  const auto first = process_of(tool->id(), 0),
             second = process_of(tool->id(), 1);
  ::kill(second, SIGKILL);
  EXPECT_TRUE(becomes_true([&] {
    const auto now = process_of(tool->id(), 1);
    return now > 0 && now != second;
  }));
  ::kill(first, SIGKILL);
  const auto output = output_of(*tool);
  EXPECT_EQ(tool->end(), 1) << output;
  EXPECT_NE(output.find("troupe: worker 0: signal 9 (Killed); it was the last "
                        "process with the state of the job, which worker 1 "
                        "had not copied yet\n"),
            output.npos)
    << output;
}

TEST_F(WorkersInTheBackground, EndAtOnceIfAllAreKilled) {
  const auto tool = start("train --data digits:1400 --batch 20 --epochs 2000 "
                          "--workers 2 --restarts 20");
  for (std::string line; line.find("epoch 1/") == line.npos;)
    ASSERT_NE(line = tool->line(), "[no line]");
  const pid_t workers[]{process_of(tool->id(), 0), process_of(tool->id(), 1)};
  for (const auto worker : workers)
    ::kill(worker, SIGKILL);
  const auto output = output_of(*tool);
  EXPECT_EQ(tool->end(), 1) << output;
  EXPECT_NE(output.find(": signal 9 (Killed); it was the last process with the "
                        "state of the job\n"),
            output.npos)
    << output;
}

TEST_F(Workers, GoOnWhenOneIsStoppedForGood) {
  const std::string training =
    "train --data digits:280 --batch 20 --epochs 12 --replicas 2 ";
  const auto expected = weights_of(training + "--strategy one_device");
  for (const int stopped : {0, 1}) {
    slow_down(1 - stopped);
    const auto done =
      run_with_signal(stopped, SIGSTOP,
                      training + "--workers 2 --restarts 1 --faults plan.json");
    EXPECT_EQ(done.code, 0) << done.err;
    EXPECT_NE(done.err.find("warning: worker " + std::to_string(stopped)
                            + " does not answer the other workers; it is "
                              "killed"),
              done.err.npos)
      << done.err;
    EXPECT_NE(done.err.find("a process has joined"), done.err.npos) << done.err;
    EXPECT_NE(("\n" + done.out).find("\nweights_sha256 " + expected),
              done.out.npos)
      << done.out << done.err;
  }
}

/// Worker 0 can open no descriptor any more, so it cannot enter the view
/// without worker 2. That is a loss of worker 0 alone.
TEST_F(Workers, GoOnWithoutOneThatHasNoDescriptorLeft) {
  if (test::has_address_sanitizer)
    GTEST_SKIP() << "the check vptr of UBSan needs free descriptors";
  const std::string training =
    "train --data digits:1400 --batch 24 --epochs 6 --replicas 3 ";
  const auto expected = weights_of(training + "--strategy one_device");
  child_options options;
  bool has_killed = false;
  options.on_error_output = [&](pid_t tool, const std::string& err) {
    if (has_killed || err.find("epoch 1/") == err.npos)
      return;
    has_killed = true;
    const auto poor = process_of(tool, 0), killed = process_of(tool, 2);
    ASSERT_GT(poor, 0);
    ASSERT_GT(killed, 0);
    const rlimit limit{5, 5};
    ASSERT_EQ(::prlimit(poor, RLIMIT_NOFILE, &limit, nullptr), 0);
    ::kill(killed, SIGKILL);
  };
  const auto done = troupe(training + "--workers 3 --transport tcp", options);
  SCOPED_TRACE(done.out + done.err);
  EXPECT_TRUE(has_killed);
  EXPECT_EQ(done.code, 0);
  EXPECT_NE(done.err.find("Too many open files; so this process has left its "
                          "job"),
            done.err.npos);
  EXPECT_NE(done.err.find("the job goes on with 1 process"), done.err.npos);
  EXPECT_NE(done.out.find("weights_sha256 " + expected), done.out.npos);
}

TEST_F(Workers, SaveAnUnfinishedRunAfterARestart) {
  slow_down(0);
  const auto cut = run_with_signal(
    1, SIGKILL,
    "train --data digits:280 --batch 20 --epochs 12 --workers 2 --restarts 1 "
    "--max-steps 130 --save cut.troupe --faults plan.json");
  EXPECT_EQ(cut.code, 130) << cut.err;
  EXPECT_NE(cut.err.find("a process has joined"), cut.err.npos) << cut.err;
  EXPECT_NE(cut.err.find("interrupted after step 130"), cut.err.npos)
    << cut.err;
  EXPECT_EQ(cut.err.find("signal 9"), cut.err.npos) << cut.err;
}

TEST_F(Workers, GoOnWithThoseLeftWhenTheRestartsAreUsedUp) {
  const auto done = run_with_signal(
    1, SIGKILL,
    "train --data digits:280 --epochs 200 --workers 2 --restarts 0");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.err.find("worker 1: signal 9 (Killed); the others have "
                          "finished the job without it"),
            done.err.npos)
    << done.err;
}

/// It ends before it has connected to the other one, which is not there.
TEST_F(Workers, DoNotBeginWithoutOneThatCannotReadItsData) {
  const net::reserved_ports ports{2};
  const auto address = [&](std::size_t i) {
    return "127.0.0.1:" + std::to_string(ports.numbers()[i]);
  };
  const net::cluster_spec cluster{
    std::map<std::string, net::cluster_spec::list>{
      {"worker", {address(0), address(1)}}}};
  const auto config = net::write_tf_config(cluster, {"worker", 1});
  const variable_is task{"TF_CONFIG", config.c_str()};
  expect_rejected("train --strategy multi_worker_mirrored --data mnist:none", 1,
                  {"none"});
}

TEST_F(Workers, ReportAUsageErrorOnce) {
  expect_rejected("train --workers 2 --replicas 1", 2, {"--replicas 1"});
  expect_rejected("train --workers 2 --data csv:none.csv", 1, {"none.csv"});
  expect_rejected("train --workers 2 --transport carrier", 2, {"--transport"});
  expect_rejected("train --workers 2 --save none/m.troupe", 1,
                  {"none/m.troupe"});
  ::setenv("TF_CONFIG",
           R"({"cluster": {"worker": ["127.0.0.1:1", "127.0.0.1:2"]},
               "task": {"type": "worker", "index": 0}})",
           1);
  expect_rejected("train --workers 3", 2, {"--workers 3", "--workers 2"});
  expect_rejected("train --workers 2 --transport tls", 2,
                  {"transport tls", "TROUPE_TLS_CERTIFICATE"});
  ::setenv("TF_CONFIG",
           R"({"cluster": {"worker": ["127.0.0.1:1", "127.0.0.1:2"],
                           "evaluator": ["127.0.0.1:3"]},
               "task": {"type": "evaluator", "index": 0}})",
           1);
  for (const auto* how : {"", " --workers 2", " --strategy mirrored"})
    expect_rejected(
      "train" + std::string{how}, 2,
      {"TF_CONFIG: task.type is evaluator", "a chief or a worker"});
  ::unsetenv("TF_CONFIG");
}

TEST_F(Workers, GetAWarningIfTheStrategyIgnoresThem) {
  ::setenv("TF_CONFIG",
           R"({"cluster": {"worker": ["127.0.0.1:1", "127.0.0.1:2"]},
               "task": {"type": "worker", "index": 0}})",
           1);
  const auto done = troupe("train --data digits:200 --epochs 1");
  ::unsetenv("TF_CONFIG");
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.err.find("TF_CONFIG names 2 workers, but --strategy default "
                          "trains in this process alone; give --strategy "
                          "multi_worker_mirrored"),
            done.err.npos)
    << done.err;
}

} // namespace
