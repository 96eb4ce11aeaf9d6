#include "troupe/strategies/membership/rendezvous.hpp"

#include <gtest/gtest.h>

namespace troupe {

namespace {

const roster::terms same{"1.0", "v3", 2, 4, "lease 16"};

roster::hello hello(std::uint32_t task, std::uint64_t incarnation,
                    const roster::terms& on = same) {
  return {task, incarnation, "127.0.0.1", std::uint16_t(1000 + task), on};
}

roster::machine of_three() {
  return {{"chief 0", "worker 1", "worker 2"}, hello(0, 10)};
}

/// @returns the reason of a rejection; "" if the request was admitted.
std::string why_not(const roster::answer& x) {
  const auto* no = std::get_if<roster::refused>(&x);
  return no ? no->why : "";
}

} // namespace

TEST(Rendezvous, IsCompleteWhenEveryTaskIsTaken) {
  auto it = of_three();
  EXPECT_EQ(it.missing(), "worker 1 and worker 2");
  EXPECT_EQ(why_not(it.on(hello(2, 12))), "");
  EXPECT_FALSE(it.complete());
  EXPECT_EQ(it.missing(), "worker 1");
  const auto last = it.on(hello(1, 11));
  EXPECT_TRUE(std::get<roster::taken>(last).complete);
  EXPECT_EQ(it.missing(), "");
  const auto all = it.members();
  ASSERT_EQ(all.members.size(), 3u);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(all.members[i].incarnation, 10 + i);
    EXPECT_EQ(all.members[i].port, 1000 + i);
  }
}

TEST(Rendezvous, RejectsUnknownAndDuplicateTasksWithAReason) {
  auto it = of_three();
  EXPECT_EQ(why_not(it.on(hello(7, 1))),
            "task 7 does not exist in this job; its number of tasks is 3");
  EXPECT_EQ(why_not(it.on(hello(3, 1))),
            "task 3 does not exist in this job; its number of tasks is 3");
  EXPECT_NE(why_not(it.on(hello(0, 1))), "") << "the leader is a member";
  EXPECT_EQ(why_not(it.on(hello(1, 11))), "");
  EXPECT_EQ(why_not(it.on(hello(1, 99))),
            "worker 1 has joined already and that process is alive; this is a "
            "second process for the same task");
  EXPECT_EQ(it.missing(), "worker 2") << "the first process of task 1 was kept";
}

TEST(Rendezvous, AdmitsARestartedProcessBeforeTheViewIsClosed) {
  auto it = of_three();
  EXPECT_EQ(why_not(it.on(hello(1, 11))), "");
  it.on_lost(1, 99); // of an older incarnation
  EXPECT_NE(why_not(it.on(hello(1, 12))), "");
  it.on_lost(1, 11);
  EXPECT_EQ(it.missing(), "worker 1 and worker 2");
  EXPECT_EQ(why_not(it.on(hello(1, 12))), "");
  EXPECT_EQ(why_not(it.on(hello(2, 20))), "");
  EXPECT_EQ(it.members().members[1].incarnation, 12u);
  it.on_lost(1, 12);
  EXPECT_TRUE(it.complete())
    << "losses after the view is closed have no effect";
  EXPECT_EQ(why_not(it.on(hello(1, 13))),
            "worker 1 asked to join after the job had started with all its 3 "
            "processes");
}

TEST(Rendezvous, FreesTheLastTaskIfItsProcessIsLostBeforeTheViewIsClosed) {
  auto it = of_three();
  it.on(hello(1, 11));
  it.on(hello(2, 12));
  EXPECT_TRUE(it.complete());
  it.on_lost(2, 12);
  EXPECT_EQ(it.missing(), "worker 2");
  EXPECT_EQ(why_not(it.on(hello(2, 13))), "");
  EXPECT_EQ(it.members().members[2].incarnation, 13u);
}

TEST(Rendezvous, NeverFreesTheLeadersTask) {
  auto it = of_three();
  it.on_lost(0, 10);
  EXPECT_EQ(it.missing(), "worker 1 and worker 2");
  it.on_lost(3, 10); // unknown task
  it.on_lost(1, 11); // the task is free
  EXPECT_EQ(it.missing(), "worker 1 and worker 2");
}

TEST(Rendezvous, JoinsAnyNumberOfNames) {
  EXPECT_EQ(roster::listed({}), "");
  EXPECT_EQ(roster::listed({"a"}), "a");
  EXPECT_EQ(roster::listed({"a", "b"}), "a and b");
  EXPECT_EQ(roster::listed({"a", "b", "c", "d"}), "a, b, c and d");
}

TEST(Rendezvous, NamesTheConfigurationThatDiffers) {
  const auto with = [](auto change) {
    auto x = same;
    change(x);
    auto it = of_three();
    const auto why = why_not(it.on(hello(1, 11, x)));
    EXPECT_EQ(it.missing(), "worker 1 and worker 2");
    return why;
  };
  EXPECT_EQ(with([](auto& x) { x.version = "2.0"; }),
            "worker 1 has version 2.0, but chief 0 1.0");
  EXPECT_EQ(with([](auto& x) { x.kernels = "v4"; }),
            "worker 1 has kernels of level v4, but chief 0 v3");
  EXPECT_EQ(with([](auto& x) { x.threads = 1; }),
            "worker 1 has threads per replica: 1, but chief 0 2");
  EXPECT_EQ(with([](auto& x) { x.replicas = 3; }),
            "worker 1 has replicas per process: 3, but chief 0 4");
  EXPECT_EQ(with([](auto& x) { x.options = "lease 4"; }),
            "worker 1 has options lease 4, but chief 0 lease 16");
}

} // namespace troupe
