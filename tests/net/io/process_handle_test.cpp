#include "troupe/net/io/process_handle.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace troupe::net;

/// A process that waits until it is killed.
class waiting_process {
public:
  waiting_process() {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    id_ = ::fork();
    if (id_ == 0) {
      const auto self = own_process_identity();
      const bool written = ::write(ready[1], &self.start_time, 8) == 8;
      while (written)
        ::pause();
      ::_exit(1);
    }
    identity = own_process_identity();
    identity.number = static_cast<std::uint64_t>(id_);
    EXPECT_EQ(::read(ready[0], &identity.start_time, 8), 8);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~waiting_process() { kill(); }

  void kill() {
    if (id_ > 0) {
      ::kill(id_, SIGKILL);
      siginfo_t info{};
      ::waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOWAIT);
    }
  }
  void reap() {
    ::waitpid(id_, nullptr, 0);
    id_ = 0;
  }

  process_identity identity;

private:
  pid_t id_ = 0;
};

TEST(ProcessHandle, SaysWhenTheProcessHasEnded) {
  waiting_process other;
  const auto handle = process_handle::open(other.identity);
  ASSERT_TRUE(handle);
  EXPECT_FALSE(handle->has_ended());
  other.kill();
  EXPECT_TRUE(handle->has_ended());
  other.reap();
  EXPECT_TRUE(handle->has_ended());
  EXPECT_FALSE(process_handle::open(other.identity));
}

TEST(ProcessHandle, IsNotThatOfALaterProcessWithTheSameNumber) {
  const waiting_process other;
  auto earlier = other.identity;
  --earlier.start_time;
  EXPECT_FALSE(process_handle::open(earlier));
}

TEST(ProcessHandle, IsNotThatOfAnotherHost) {
  const waiting_process other;
  auto elsewhere = other.identity;
  elsewhere.host += "1";
  EXPECT_FALSE(process_handle::open(elsewhere));
  elsewhere.host.clear();
  EXPECT_FALSE(process_handle::open(elsewhere));
}

TEST(ProcessHandle, RejectsImpossibleNumbers) {
  auto wrong = own_process_identity();
  EXPECT_TRUE(process_handle::open(wrong));
  for (const std::uint64_t number : {std::uint64_t{0}, ~std::uint64_t{0}}) {
    wrong.number = number;
    EXPECT_FALSE(process_handle::open(wrong));
  }
}

} // namespace
