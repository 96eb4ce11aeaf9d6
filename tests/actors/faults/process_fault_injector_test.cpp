#include "../../support/scratch.hpp"
#include "troupe/actors/faults/process_fault_injector.hpp"
#include "troupe/net/base/descriptor.hpp"
#include "troupe/net/base/notification.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace troupe::injection {
namespace {

using namespace std::chrono_literals;
using strings = std::vector<std::string>;

class ProcessFaultInjector : public scratch_test {
protected:
  process_faults recorded() {
    return {.kill = [this] { done.emplace_back("kill"); },
            .stop =
              [this](std::chrono::nanoseconds x) {
                done.push_back("stop " + std::to_string(x / 1ms));
              },
            .cut =
              [this](std::optional<std::uint32_t> peer) {
                done.push_back("cut " + (peer ? std::to_string(*peer) : "all"));
                return std::size_t{1};
              },
            .wait =
              [this](std::chrono::nanoseconds x) {
                done.push_back("wait " + std::to_string(x / 1ms));
              }};
  }

  static fault_injector::injected_fault
  send(fault_injector& to, std::uint64_t step, std::uint32_t sender = 1) {
    return to.on_send(replica_id(sender), {}, message_kind::step_done, 1, step);
  }
  static fault_injector::injected_fault
  packet(fault_injector& to, std::uint64_t step, std::uint32_t sender = 1) {
    return to.on_packet(replica_id(sender), replica_id(0),
                        message_kind::contribution, 1, step);
  }

  strings done; ///< What was inflicted, in order.
};

/// A loop makes a gather of step 4 of the group between its steps 2 and 3.
TEST_F(ProcessFaultInjector, CountsStepsAsTheUserDoes) {
  process_fault_injector injector{
    faults{}.kill(process{1}, at_step{3}).slow(process{1}, at_step{3}, 5ms), 1,
    fault_notes{}, recorded()};
  injector.steps()->begin_run(3, 4, 2);
  send(injector, 3);
  injector.steps()->begin_run(4, 5, {}); // the gather
  send(injector, 4);
  packet(injector, 4);
  EXPECT_EQ(done, strings{});
  injector.steps()->begin_run(5, 6, 3);
  packet(injector, 4); // is late
  EXPECT_EQ(done, strings{});
  packet(injector, 5);
  EXPECT_EQ(done, (strings{"kill", "wait 5"}));
  injector.steps()->begin_run(6, 7, {});
  send(injector, 6);
  EXPECT_EQ(done.size(), 2u);
  injector.steps()->begin_run(0, 2, 4); // in the next view
  send(injector, 0);
  send(injector, 1);
  EXPECT_EQ(done, (strings{"kill", "wait 5", "wait 5", "wait 5"}));
}

TEST_F(ProcessFaultInjector, InflictsEachFaultOnceAndNotBeforeItsStep) {
  process_fault_injector injector{faults{}
                                    .kill(process{1}, at_step{3})
                                    .stop(process{1}, at_step{5}, 20ms)
                                    .disconnect(process{1}, at_step{5})
                                    .kill(process{0}, at_step{1}),
                                  1, fault_notes{}, recorded()};
  send(injector, 2);
  injector.on_send({role_id::kind::chief, 0}, replica_id(1),
                   message_kind::grant, 1, 9); // a step that has not begun
  EXPECT_EQ(done, strings{});
  send(injector, 4);
  EXPECT_EQ(done, strings{"kill"});
  packet(injector, 5);
  send(injector, 6);
  EXPECT_EQ(done, (strings{"kill", "stop 20", "cut all"}));
}

TEST_F(ProcessFaultInjector, CountsMessagesAndPackets) {
  process_fault_injector injector{faults{}
                                    .kill(process{1}, at_message{4})
                                    .stop(process{1}, at_packet{2}, 1ms),
                                  1, fault_notes{}, recorded()};
  packet(injector, 0);
  send(injector, 0);
  send(injector, 0);
  EXPECT_EQ(done, strings{});
  send(injector, 0);
  EXPECT_EQ(done, strings{"kill"});
  packet(injector, 0);
  EXPECT_EQ(done, (strings{"kill", "stop 1"}));
}

TEST_F(ProcessFaultInjector, CutsFromTheProcessThatHasDialed) {
  for (const auto& plan : {faults{}.cut(process{0}, process{2}, at_step{1}),
                           faults{}.cut(process{2}, process{0}, at_step{1})}) {
    process_fault_injector lower{plan, 0, fault_notes{}, recorded()};
    send(lower, 1);
    EXPECT_EQ(done, strings{});
    process_fault_injector higher{plan, 2, fault_notes{}, recorded()};
    send(higher, 1);
    EXPECT_EQ(done, strings{"cut 0"});
    done.clear();
  }
}

/// With parameter servers, a process dials those with higher numbers.
TEST_F(ProcessFaultInjector, CutsFromTheLowerNumberIfThatHasDialed) {
  auto functions = recorded();
  functions.lower_dials = true;
  for (const auto& plan : {faults{}.cut(process{1}, process{3}, at_step{1}),
                           faults{}.cut(process{3}, process{1}, at_step{1})}) {
    process_fault_injector higher{plan, 3, fault_notes{}, functions};
    higher.on_step(1);
    EXPECT_EQ(done, strings{});
    process_fault_injector lower{plan, 1, fault_notes{}, functions};
    lower.on_step(1);
    EXPECT_EQ(done, strings{"cut 3"});
    done.clear();
  }
}

TEST_F(ProcessFaultInjector, CountsStepsAndAnswersOfParameterServers) {
  process_fault_injector worker{faults{}
                                  .stop(process{1}, at_message{1}, 1ms)
                                  .slow(process{1}, at_step{4}, 5ms, 1)
                                  .kill(process{1}, at_step{5}),
                                1, fault_notes{}, recorded()};
  for (const std::uint64_t step : {3, 4, 4, 7})
    worker.on_step(step);
  EXPECT_EQ(done, (strings{"wait 5", "kill"}));
  done.clear();
  process_fault_injector server{
    faults{}.kill(process{3}, at_message{3}).stop(process{3}, at_step{0}, 1ms),
    3, fault_notes{}, recorded()};
  server.on_answer();
  server.on_answer();
  EXPECT_EQ(done, strings{});
  server.on_answer();
  EXPECT_EQ(done, strings{"kill"});
}

TEST_F(ProcessFaultInjector, HitsOneMessageOrPacket) {
  process_fault_injector injector{faults{}
                                    .drop(process{1}, at_message{2})
                                    .corrupt(process{1}, at_step{1})
                                    .delay(process{1}, at_packet{3}, 3ns)
                                    .duplicate(process{1}, at_step{2}),
                                  1, fault_notes{}, recorded()};
  const fault_injector::injected_fault none;
  EXPECT_EQ(send(injector, 0), none);
  EXPECT_EQ(send(injector, 0), none) << "only a packet can be lost";
  EXPECT_TRUE(packet(injector, 0).dropped);
  EXPECT_EQ(send(injector, 1), none) << "only a packet can be corrupted";
  EXPECT_TRUE(packet(injector, 1).corrupted);
  const auto delayed = packet(injector, 1);
  EXPECT_GE(delayed.delay, 1ns);
  EXPECT_LE(delayed.delay, 3ns);
  EXPECT_TRUE(send(injector, 2).duplicated);
  EXPECT_EQ(send(injector, 3), none);
  EXPECT_EQ(packet(injector, 3), none);
}

TEST_F(ProcessFaultInjector, DrawsFromTheSeedOfThePlan) {
  const auto dropped = [this](std::uint64_t seed, std::uint32_t process) {
    process_fault_injector injector{faults{}.with_seed(seed).drop(0.3), process,
                                    fault_notes{}, recorded()};
    std::vector<bool> out;
    for (int i = 0; i < 1000; ++i)
      out.push_back(packet(injector, 0).dropped);
    return out;
  };
  const auto one = dropped(5, 0);
  EXPECT_EQ(one, dropped(5, 0));
  EXPECT_NE(one, dropped(6, 0));
  EXPECT_NE(one, dropped(5, 1));
  const auto count = std::ranges::count(one, true);
  EXPECT_GT(count, 200);
  EXPECT_LT(count, 400);
}

TEST_F(ProcessFaultInjector, AffectsOnlyMessagesOfItsReplicaOrProcess) {
  auto of_process = fault{.kind = fault_kind::drop, .process = 1};
  of_process.probability = 1;
  process_fault_injector other{faults{}.add(of_process), 0, fault_notes{},
                               recorded()};
  EXPECT_FALSE(packet(other, 0).dropped);
  process_fault_injector own{faults{}.add(of_process), 1, fault_notes{},
                             recorded()};
  EXPECT_TRUE(packet(own, 0).dropped);
  process_fault_injector of_replica{faults{}.drop(replica{2}, 1), 1,
                                    fault_notes{}, recorded()};
  EXPECT_FALSE(packet(of_replica, 0, 1).dropped);
  EXPECT_TRUE(packet(of_replica, 0, 2).dropped);
}

TEST_F(ProcessFaultInjector, WaitsOnceInEachSlowStep) {
  process_fault_injector injector{faults{}
                                    .slow(process{1}, at_step{2}, 5ms, 2)
                                    .slow(process{1}, at_step{6}, 7ms),
                                  1, fault_notes{}, recorded()};
  for (const std::uint64_t step : {1, 2, 2, 3, 4, 5})
    send(injector, step);
  EXPECT_EQ(done, (strings{"wait 5", "wait 5"}));
  for (const std::uint64_t step : {6, 6, 7})
    packet(injector, step);
  EXPECT_EQ(done, (strings{"wait 5", "wait 5", "wait 7", "wait 7"}));
}

TEST_F(ProcessFaultInjector, InflictsAFaultOfATimeWithoutAMessage) {
  net::notification killed;
  auto functions = recorded();
  functions.kill = [&killed] { killed.notify(); };
  const process_fault_injector injector{faults{}.kill(process{1}, at_time{1ms}),
                                        1, fault_notes{}, functions};
  EXPECT_TRUE(killed.wait_for(60s));
}

TEST_F(ProcessFaultInjector, DoesNotRepeatWhatIsNoted) {
  put("fired", "");
  const fault_notes notes{folder / "fired"};
  const auto plan = faults{}
                      .kill(process{0}, at_step{1})
                      .kill(process{1}, at_step{1})
                      .kill(process{1}, at_step{4})
                      .duplicate(1);
  {
    process_fault_injector injector{plan, 1, notes, recorded()};
    EXPECT_TRUE(send(injector, 1).duplicated);
  }
  EXPECT_EQ(done, strings{"kill"});
  EXPECT_EQ(notes.read(), (std::set<std::size_t>{1, 3}));
  process_fault_injector again{plan, 1, notes, recorded()};
  EXPECT_TRUE(send(again, 3).duplicated) << "a probability goes on";
  EXPECT_EQ(done, strings{"kill"});
  send(again, 4);
  EXPECT_EQ(done, (strings{"kill", "kill"}));
  EXPECT_EQ(notes.read(), (std::set<std::size_t>{1, 2, 3}));
}

/// Waits until a child process has ended or, with WUNTRACED, was stopped. Kills
/// it after a minute.
int status_of(pid_t child, int options) {
  int status = 0;
  if ((options & WUNTRACED) == 0) {
    const net::descriptor handle{
      static_cast<int>(::syscall(SYS_pidfd_open, child, 0))};
    pollfd watched{handle.get(), POLLIN, 0};
    if (::poll(&watched, 1, 60'000) != 1)
      ::kill(child, SIGKILL);
  }
  EXPECT_EQ(::waitpid(child, &status, options), child);
  return status;
}

TEST(ProcessFaults, StopAProcessAndContinueIt) {
  const auto child = ::fork();
  if (child == 0) {
    stop_this_process(200ms);
    ::_exit(7);
  }
  ASSERT_GT(child, 0);
  const auto stopped = status_of(child, WUNTRACED);
  EXPECT_TRUE(WIFSTOPPED(stopped)) << stopped;
  const auto ended = status_of(child, 0);
  EXPECT_TRUE(WIFEXITED(ended));
  EXPECT_EQ(WEXITSTATUS(ended), 7);
}

TEST(ProcessFaults, KillAProcess) {
  const auto child = ::fork();
  if (child == 0)
    kill_this_process();
  ASSERT_GT(child, 0);
  const auto ended = status_of(child, 0);
  EXPECT_TRUE(WIFSIGNALED(ended));
  EXPECT_EQ(WTERMSIG(ended), SIGKILL);
}

} // namespace
} // namespace troupe::injection
