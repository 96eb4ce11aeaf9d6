#include "troupe/strategies/membership/rendezvous.hpp"

#include <gtest/gtest.h>

namespace troupe {

namespace {

const rendezvous::process_config same{"1.0", "v3", 2, 4, "step_window 16"};

rendezvous::join_request
request_of(std::uint32_t task, std::uint64_t incarnation,
           const rendezvous::process_config& on = same) {
  return {task, incarnation, "127.0.0.1", std::uint16_t(1000 + task), on};
}

rendezvous::state_machine three_members() {
  return {{"chief 0", "worker 1", "worker 2"}, request_of(0, 10)};
}

/// Returns the reason of a rejection; "" if the request was admitted.
std::string rejection_of(const rendezvous::decision& x) {
  const auto* no = std::get_if<rendezvous::rejected>(&x);
  return no ? no->reason : "";
}

} // namespace

TEST(Rendezvous, IsCompleteWhenEveryTaskIsTaken) {
  auto machine = three_members();
  EXPECT_EQ(machine.missing(), "worker 1 and worker 2");
  EXPECT_EQ(rejection_of(machine.on(request_of(2, 12))), "");
  EXPECT_FALSE(machine.complete());
  EXPECT_EQ(machine.missing(), "worker 1");
  const auto last = machine.on(request_of(1, 11));
  EXPECT_TRUE(std::get<rendezvous::admitted>(last).complete);
  EXPECT_EQ(machine.missing(), "");
  const auto all = machine.close();
  ASSERT_EQ(all.members.size(), 3u);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(all.members[i].incarnation, 10 + i);
    EXPECT_EQ(all.members[i].port, 1000 + i);
  }
}

TEST(Rendezvous, RejectsUnknownAndDuplicateTasksWithAReason) {
  auto machine = three_members();
  EXPECT_EQ(rejection_of(machine.on(request_of(7, 1))),
            "task 7 does not exist in this job; its number of tasks is 3");
  EXPECT_EQ(rejection_of(machine.on(request_of(3, 1))),
            "task 3 does not exist in this job; its number of tasks is 3");
  EXPECT_NE(rejection_of(machine.on(request_of(0, 1))), "")
    << "the leader is a member";
  EXPECT_EQ(rejection_of(machine.on(request_of(1, 11))), "");
  EXPECT_EQ(rejection_of(machine.on(request_of(1, 99))),
            "worker 1 has joined already and that process is alive; this is a "
            "second process for the same task");
  EXPECT_EQ(machine.missing(), "worker 2")
    << "the first process of task 1 was kept";
}

TEST(Rendezvous, AdmitsARestartedProcessBeforeTheViewIsClosed) {
  auto machine = three_members();
  EXPECT_EQ(rejection_of(machine.on(request_of(1, 11))), "");
  machine.on_lost(1, 99); // the loss of another incarnation has no effect
  EXPECT_NE(rejection_of(machine.on(request_of(1, 12))), "");
  machine.on_lost(1, 11);
  EXPECT_EQ(machine.missing(), "worker 1 and worker 2");
  EXPECT_EQ(rejection_of(machine.on(request_of(1, 12))), "");
  EXPECT_EQ(rejection_of(machine.on(request_of(2, 20))), "");
  EXPECT_EQ(machine.close().members[1].incarnation, 12u);
  machine.on_lost(1, 12);
  EXPECT_TRUE(machine.complete())
    << "losses after the view is closed have no effect";
  EXPECT_EQ(rejection_of(machine.on(request_of(1, 13))),
            "worker 1 asked to join after the job had started with all its 3 "
            "processes");
}

TEST(Rendezvous, FreesTheLastTaskIfItsProcessIsLostBeforeTheViewIsClosed) {
  auto machine = three_members();
  machine.on(request_of(1, 11));
  machine.on(request_of(2, 12));
  EXPECT_TRUE(machine.complete());
  machine.on_lost(2, 12);
  EXPECT_EQ(machine.missing(), "worker 2");
  EXPECT_EQ(rejection_of(machine.on(request_of(2, 13))), "");
  EXPECT_EQ(machine.close().members[2].incarnation, 13u);
}

TEST(Rendezvous, NeverFreesTheLeadersTask) {
  auto machine = three_members();
  machine.on_lost(0, 10);
  EXPECT_EQ(machine.missing(), "worker 1 and worker 2");
  machine.on_lost(3, 10); // unknown task
  machine.on_lost(1, 11); // no process has this task
  EXPECT_EQ(machine.missing(), "worker 1 and worker 2");
}

TEST(Rendezvous, JoinsAnyNumberOfNames) {
  EXPECT_EQ(rendezvous::join_words({}), "");
  EXPECT_EQ(rendezvous::join_words({"a"}), "a");
  EXPECT_EQ(rendezvous::join_words({"a", "b"}), "a and b");
  EXPECT_EQ(rendezvous::join_words({"a", "b", "c", "d"}), "a, b, c and d");
}

TEST(Rendezvous, NamesTheConfigurationThatDiffers) {
  const auto reason_with = [](auto change) {
    auto x = same;
    change(x);
    auto it = three_members();
    const auto why = rejection_of(it.on(request_of(1, 11, x)));
    EXPECT_EQ(it.missing(), "worker 1 and worker 2");
    return why;
  };
  EXPECT_EQ(reason_with([](auto& x) { x.version = "2.0"; }),
            "worker 1 has version 2.0, but chief 0 1.0");
  EXPECT_EQ(reason_with([](auto& x) { x.kernels = "v4"; }),
            "worker 1 has kernels of level v4, but chief 0 v3");
  EXPECT_EQ(reason_with([](auto& x) { x.threads = 1; }),
            "worker 1 has threads per replica: 1, but chief 0 2");
  EXPECT_EQ(reason_with([](auto& x) { x.replicas = 3; }),
            "worker 1 has replicas per process: 3, but chief 0 4");
  EXPECT_EQ(reason_with([](auto& x) { x.options = "step_window 4"; }),
            "worker 1 has options step_window 4, but chief 0 step_window 16");
}

} // namespace troupe
