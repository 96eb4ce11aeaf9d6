#include "background.hpp"
#include "worker_test.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>

namespace {

using namespace troupe;

class Spare : public worker_test {
protected:
  static constexpr auto training =
    "train --data digits:280 --batch 20 --epochs 12 ";

  /// Value of a variable in the environment of a process.
  static std::string variable_of(pid_t process, const std::string& name) {
    std::ifstream input{"/proc/" + std::to_string(process) + "/environ"};
    for (std::string one; std::getline(input, one, '\0');)
      if (one.starts_with(name + "="))
        return one.substr(name.size() + 1);
    return {};
  }

  /// Starts a spare for the task of a worker.
  std::unique_ptr<background_process>
  start_for(pid_t worker, const std::string& words) const {
    std::string command = "cd " + folder.string() + " && exec env";
    for (const auto* name : {"TF_CONFIG", "TROUPE_SECRET_FILE"})
      command +=
        std::string{" "} + name + "='" + variable_of(worker, name) + "'";
    return std::make_unique<background_process>(std::vector<std::string>{
      "/bin/sh", "-c", command + " " TROUPE_TOOL " " + words + " 2>&1"});
  }

  /// Starts a spare for any task of the job of a worker, and waits until it
  /// knows the job.
  std::unique_ptr<background_process> start_for_any(pid_t worker,
                                                    int workers) const {
    auto out = start_for(worker, std::string{training} + "--workers "
                                   + std::to_string(workers) + " --replicas "
                                   + std::to_string(workers)
                                   + " --join --spare 60 --task any");
    const auto waits = out->line();
    EXPECT_NE(waits.find("this process is a spare for any task: it waits at "
                         "127.0.0.1:"),
              waits.npos)
      << waits;
    return out;
  }

  static std::string rest_of(background_process& process) {
    std::string output;
    for (auto line = process.line(); line != "[no line]"; line = process.line())
      output += line + '\n';
    return output;
  }

  static int count(const std::string& text, const std::string& part) {
    int n = 0;
    for (auto at = text.find(part); at != text.npos;
         at = text.find(part, at + 1))
      ++n;
    return n;
  }

  /// Weights of a run of one process with this number of replicas.
  std::string undisturbed(int replicas) const {
    return weights_of("train --data digits:280 --batch 20 --epochs 12 "
                      "--strategy one_device --replicas "
                      + std::to_string(replicas));
  }

  static constexpr auto joined = "a process has joined";
  static constexpr auto not_needed =
    "the job has ended; the spare was not needed";
};

TEST_F(Spare, TakesTheTaskWhenItsWorkerIsKilled) {
  const auto expected = undisturbed(2);
  for (const int killed : {1, 0}) {
    std::unique_ptr<background_process> spare;
    std::string waits;
    child_options options;
    options.on_error_output = [&](pid_t tool, const std::string& err) {
      if (spare || err.find("epoch 1/") == err.npos)
        return;
      const auto worker = process_of(tool, killed);
      ASSERT_GT(worker, 0);
      spare =
        start_for(worker, std::string{training}
                            + "--workers 2 --replicas 2 --join --spare 60");
      waits = spare->line();
      EXPECT_EQ(err.find("joined"), err.npos);
      ::kill(worker, SIGKILL);
    };
    // The worker that stays waits in each step, so that the job lasts until the
    // spare has joined.
    slow_down(1 - killed);
    const auto done = troupe(std::string{training}
                               + "--workers 2 --replicas 2 --faults plan.json",
                             options);
    SCOPED_TRACE(done.err);
    ASSERT_TRUE(spare);
    EXPECT_NE(waits.find("this process is a spare: it waits for the end of the "
                         "process that is worker "
                         + std::to_string(killed)),
              waits.npos)
      << waits;
    auto output = done.out + done.err;
    for (auto line = spare->line(); line != "[no line]"; line = spare->line())
      output += '\n' + line;
    EXPECT_EQ(spare->end(), 0);
    EXPECT_EQ(done.code, 0);
    // A spare in task 0 leads from its join on, and prints the results.
    EXPECT_NE(output.find("a process has joined"), output.npos) << output;
    EXPECT_NE(output.find("weights_sha256 " + expected), output.npos) << output;
  }
}

TEST_F(Spare, EndsIfItIsNotNeededInTime) {
  const int held = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(held, generic, size), 0);
  ASSERT_EQ(::listen(held, 1), 0);
  ASSERT_EQ(::getsockname(held, generic, &size), 0);
  const auto port = std::to_string(ntohs(address.sin_port));
  ::setenv("TF_CONFIG",
           (R"({"cluster": {"worker": ["127.0.0.1:1", "127.0.0.1:)" + port
            + R"("]}, "task": {"type": "worker", "index": 1}})")
             .c_str(),
           1);
  expect_rejected("train --workers 2 --join --spare 1", 1,
                  {"this process is a spare: it waits for the end of the "
                   "process that is worker 1",
                   "a spare for worker 1 was not needed",
                   "was in use for 1000 ms"});
  ::unsetenv("TF_CONFIG");
  ::close(held);
}

TEST_F(Spare, NeedsAJobToJoin) {
  expect_rejected("train --workers 2 --spare 5", 2, {"--spare 5", "--join"});
}

TEST_F(Spare, ForAnyTaskTakesTheOneThatIsLostAtItsOwnAddress) {
  const auto expected = undisturbed(2);
  for (const int killed : {1, 0}) {
    std::unique_ptr<background_process> spare;
    child_options options;
    options.on_error_output = [&](pid_t tool, const std::string& err) {
      if (spare || err.find("epoch 1/") == err.npos)
        return;
      const auto worker = process_of(tool, killed);
      ASSERT_GT(worker, 0);
      spare = start_for_any(worker, 2);
      EXPECT_EQ(err.find(joined), err.npos);
      ::kill(worker, SIGKILL);
    };
    slow_down(1 - killed);
    const auto done =
      troupe(std::string{training} + "--workers 2 --faults plan.json", options);
    ASSERT_TRUE(spare);
    const auto spare_output = rest_of(*spare);
    SCOPED_TRACE(done.out + done.err + spare_output);
    EXPECT_EQ(spare->end(), 0);
    EXPECT_EQ(done.code, 0);
    EXPECT_EQ(
      count(spare_output, "the job had no worker " + std::to_string(killed)
                            + " any more; this process has taken its task"),
      1);
    const auto output = done.out + done.err + spare_output;
    EXPECT_NE(output.find(joined), output.npos);
    EXPECT_NE(output.find("weights_sha256 " + expected), output.npos);
  }
}

TEST_F(Spare, OfTwoForOneTaskOnlyOneIsAdmitted) {
  const auto expected = undisturbed(2);
  std::vector<std::unique_ptr<background_process>> spares;
  child_options options;
  options.on_error_output = [&](pid_t tool, const std::string& err) {
    if (!spares.empty() || err.find("epoch 1/") == err.npos)
      return;
    const auto worker = process_of(tool, 1);
    ASSERT_GT(worker, 0);
    for (int i = 0; i < 2; ++i)
      spares.push_back(start_for_any(worker, 2));
    // Both continue when the task is vacant, so that they ask at one time.
    for (const auto& one : spares)
      one->signal(SIGSTOP);
    ::kill(worker, SIGKILL);
    for (const auto& one : spares)
      one->signal(SIGCONT);
  };
  slow_down(0);
  const auto done =
    troupe(std::string{training} + "--workers 2 --faults plan.json", options);
  ASSERT_EQ(spares.size(), 2u);
  std::string output = done.out + done.err;
  int waited = 0;
  for (const auto& one : spares) {
    const auto text = rest_of(*one);
    EXPECT_EQ(one->end(), 0) << text;
    waited += count(text, not_needed);
    output += "[spare]\n" + text;
  }
  EXPECT_EQ(done.code, 0) << output;
  EXPECT_EQ(waited, 1) << output;
  EXPECT_EQ(count(done.err, joined), 1) << output;
  EXPECT_NE(output.find("weights_sha256 " + expected), output.npos) << output;
}

/// A spare takes task 1. Then worker 0 is killed, and another spare or a worker
/// with its task joins, which finds the first spare only by the view.
TEST_F(Spare, ThatHasJoinedIsFoundByTheView) {
  const auto expected = undisturbed(3);
  for (const bool second_is_spare : {true, false}) {
    std::vector<std::unique_ptr<background_process>> spares;
    bool has_killed_0 = false;
    child_options options;
    options.on_error_output = [&](pid_t tool, const std::string& err) {
      const auto first = process_of(tool, 1), chief = process_of(tool, 0);
      const auto with_task = [&](pid_t like) {
        return start_for(like,
                         std::string{training}
                           + "--workers 3 --replicas 3 --join --spare 20");
      };
      if (spares.empty() && err.find("epoch 1/") != err.npos) {
        ASSERT_GT(first, 0);
        spares.push_back(start_for_any(first, 3));
        if (second_is_spare)
          spares.push_back(start_for_any(first, 3));
        ::kill(first, SIGKILL);
      } else if (!has_killed_0 && err.find(joined) != err.npos) {
        ASSERT_GT(chief, 0);
        has_killed_0 = true;
        if (!second_is_spare)
          spares.push_back(with_task(chief));
        ::kill(chief, SIGKILL);
      }
    };
    slow_down(2);
    const auto done =
      troupe(std::string{training} + "--workers 3 --faults plan.json", options);
    std::string output = done.out + done.err;
    for (const auto& one : spares) {
      const auto text = rest_of(*one);
      EXPECT_EQ(one->end(), 0) << text;
      output += "[spare]\n" + text;
    }
    SCOPED_TRACE(output);
    ASSERT_EQ(spares.size(), 2u);
    EXPECT_EQ(done.code, 0);
    EXPECT_EQ(count(output, "the job had no worker 1 any more"), 1);
    EXPECT_EQ(count(output, "the job had no worker 0 any more"),
              second_is_spare ? 1 : 0);
    EXPECT_GE(count(output, joined), 2);
    EXPECT_NE(output.find("weights_sha256 " + expected), output.npos);
  }
}

TEST_F(Spare, ForAnyTaskEndsWithSuccessWhenTheJobHasEnded) {
  std::unique_ptr<background_process> spare;
  child_options options;
  options.on_error_output = [&](pid_t tool, const std::string& err) {
    if (!spare && err.find("epoch 1/") != err.npos)
      spare = start_for_any(process_of(tool, 1), 2);
  };
  slow_down(1);
  const auto done =
    troupe(std::string{training} + "--workers 2 --faults plan.json", options);
  ASSERT_TRUE(spare);
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(count(done.err, joined), 0) << done.err;
  const auto output = rest_of(*spare);
  EXPECT_EQ(count(output, not_needed), 1) << output;
  EXPECT_EQ(count(output, "has taken its task"), 0) << output;
  EXPECT_EQ(spare->end(), 0);
}

TEST_F(Spare, WithAnotherConfigurationIsRefusedBeforeItIsNeeded) {
  std::unique_ptr<background_process> spare;
  std::string output;
  child_options options;
  options.on_error_output = [&](pid_t tool, const std::string& err) {
    if (spare || err.find("epoch 1/") == err.npos)
      return;
    spare = start_for(process_of(tool, 1),
                      std::string{training}
                        + "--workers 2 --threads 2 --join --spare 60 --task "
                          "any");
    output = rest_of(*spare);
  };
  slow_down(1);
  const auto done =
    troupe(std::string{training} + "--workers 2 --faults plan.json", options);
  ASSERT_TRUE(spare);
  EXPECT_EQ(spare->end(), 1);
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(output.find("the spare has threads per replica: 2, but worker 0 1"),
            output.npos)
    << output;
}

TEST_F(Spare, WithAnotherSecretIsRefusedOnBothSidesAndTheJobGoesOn) {
  put("other", "open barley\n");
  std::filesystem::permissions(folder / "other",
                               std::filesystem::perms::owner_read);
  const auto expected = undisturbed(3);
  std::unique_ptr<background_process> spare;
  std::string output;
  child_options options;
  options.on_error_output = [&](pid_t tool, const std::string& err) {
    if (spare || err.find("epoch 1/") == err.npos)
      return;
    const auto worker = process_of(tool, 1);
    ASSERT_GT(worker, 0);
    spare = std::make_unique<background_process>(std::vector<std::string>{
      "/bin/sh", "-c",
      "cd " + folder.string() + " && exec env TF_CONFIG='"
        + variable_of(worker, "TF_CONFIG")
        + "' TROUPE_SECRET_FILE=other " TROUPE_TOOL " " + training
        + "--workers 3 --replicas 3 --join --spare 3 --task any 2>&1"});
    output = rest_of(*spare);
  };
  slow_down(2);
  const auto done =
    troupe(std::string{training} + "--workers 3 --faults plan.json", options);
  SCOPED_TRACE(done.out + done.err + "[spare]\n" + output);
  ASSERT_TRUE(spare);
  EXPECT_EQ(spare->end(), 1);
  EXPECT_EQ(done.code, 0);
  EXPECT_NE(output.find("its secret is another than that of this process"),
            output.npos);
  EXPECT_NE(done.err.find("it does not know the secret"), done.err.npos);
  EXPECT_EQ(count(done.err, joined), 0);
  EXPECT_NE(done.out.find("weights_sha256 " + expected), done.out.npos);
}

TEST_F(Spare, ForAnyTaskRejectsWrongOptions) {
  const auto cluster = [](const std::string& first) {
    ::setenv("TF_CONFIG",
             (R"({"cluster": {"worker": [")" + first + R"(", "127.0.0.1:2"]}})")
               .c_str(),
             1);
  };
  cluster("127.0.0.1:1");
  ::setenv("TROUPE_FAULTS", "plan.json", 1);
  const std::string any = "train --workers 2 --join --spare 1 --task any ";
  expect_rejected(any, 1,
                  {"no process of the job answers this spare yet",
                   "no process of job \"job\" answered a spare for any task",
                   "1000 ms", "--spare",
                   "TROUPE_FAULTS is \"plan.json\", but a spare for any task "
                   "injects no faults"});
  ::unsetenv("TROUPE_FAULTS");
  expect_rejected("train --workers 2 --join --spare 1 --task 1", 2,
                  {"--task 1", "give any"});
  expect_rejected("train --workers 2 --spare 1 --task any", 2,
                  {"--task any", "--join and --spare"});
  expect_rejected("train --workers 2 --join --task any", 2,
                  {"--task any", "--join and --spare"});
  expect_rejected("train --workers 2 --join --listen 127.0.0.1:0", 2,
                  {"--listen 127.0.0.1:0", "--task any"});
  expect_rejected(any + "--listen here", 2, {"--listen here"});
  expect_rejected(any + "--listen 0.0.0.0:0", 2, {"listen is 0.0.0.0:0"});
  expect_rejected(any + "--faults plan.json", 2, {"--faults plan.json"});
  expect_rejected("train --workers 2 --join", 2, {"--join", "--task any"});
  cluster("10.0.0.1:1");
  expect_rejected(any, 2, {"10.0.0.1:1", "--listen HOST:PORT"});
  // No host has a name with a label of this length.
  const std::string unknown(64, 'x');
  cluster(unknown + ":1");
  expect_rejected(any, 2, {unknown.c_str(), "--listen HOST:PORT"});
  ::unsetenv("TF_CONFIG");
  expect_rejected(any, 2, {"--join: no job is given"});
}

} // namespace
