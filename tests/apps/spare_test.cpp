#include "background.hpp"
#include "worker_test.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <netinet/in.h>
#include <sys/socket.h>

namespace {

using namespace troupe;

class Spare : public worker_test {
protected:
  static constexpr auto training =
    "train --data digits:280 --batch 20 --epochs 12 --replicas 2 ";

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
};

TEST_F(Spare, TakesTheTaskWhenItsWorkerIsKilled) {
  const auto expected =
    weights_of(std::string{training} + "--strategy one_device");
  for (const int killed : {1, 0}) {
    std::unique_ptr<background_process> spare;
    std::string waits;
    child_options options;
    options.on_error_output = [&](pid_t tool, const std::string& err) {
      if (spare || err.find("epoch 1/") == err.npos)
        return;
      const auto worker = process_of(tool, killed);
      ASSERT_GT(worker, 0);
      spare = start_for(worker, std::string{training}
                                  + "--workers 2 --join --spare 60");
      waits = spare->line();
      EXPECT_EQ(err.find("joined"), err.npos);
      ::kill(worker, SIGKILL);
    };
    // The worker that stays waits in each step, so that the job lasts until the
    // spare has joined.
    put("plan.json", R"({"faults": [{"kind": "slow", "step": 0, "delay_ms": 30,
                         "process": )"
                       + std::to_string(1 - killed) + "}]}");
    const auto done =
      troupe(std::string{training} + "--workers 2 --faults plan.json", options);
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

} // namespace
