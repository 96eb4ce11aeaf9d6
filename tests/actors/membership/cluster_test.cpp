#include "troupe/tests/actors/membership/clusters.hpp"

#include <filesystem>
#include <future>

// Joining and leaving a job.

using namespace troupe;
using namespace troupe::testing;

TEST(Cluster, IsCompleteWhenAllTasksHaveJoined) {
  company_of it{3};
  it.replicas = 2;
  it.join();
  for (std::uint32_t i = 0; i < 3; ++i) {
    const auto& x = it.members[i];
    ASSERT_EQ(x.problem, "");
    EXPECT_EQ(x.in->index(), i);
    EXPECT_EQ(x.in->processes(), 3u);
    EXPECT_EQ(x.in->replicas(), 6u);
    EXPECT_EQ(x.in->leads(), i == 0);
    EXPECT_EQ(x.in->transport_to(i), "none");
  }
  EXPECT_EQ(it.members[1].in->transport_to(2),
            it.members[2].in->transport_to(1));
  it.each([](member& x, std::uint32_t) { x.in->leave(); });
}

TEST(Cluster, UsesTheTransportOfTheOptions) {
  company_of it{2};
  it.change = [](std::uint32_t, cluster_options& x) {
    x.transport = transport_kind::tcp;
  };
  it.join();
  ASSERT_TRUE(it.members[0].in && it.members[1].in);
  EXPECT_EQ(it.members[0].in->transport_to(1), "tcp");
}

TEST(Cluster, NamesTheMissingTasksIfTheStartTimesOut) {
  company_of it{4};
  it.patience = 300ms;
  it.join({0, 2});
  for (const auto i : {0, 2}) {
    EXPECT_EQ(it.members[std::size_t(i)].code, ec::stalled);
    EXPECT_EQ(it.members[std::size_t(i)].problem,
              "job 'job' cannot begin: for 300 ms worker 1 and worker 3 did "
              "not join ("
                + to_string(it.addresses[1]) + ", " + to_string(it.addresses[3])
                + ")");
  }
}

TEST(Cluster, NamesTheLeaderIfItIsMissing) {
  company_of it{2};
  it.patience = 300ms;
  it.join({1});
  EXPECT_TRUE(mentions(it.members[1].problem, "chief 0"))
    << it.members[1].problem;
}

TEST(Cluster, ReportsAnotherConfigurationOnBothSides) {
  company_of it{2};
  std::string logged;
  it.patience = 500ms;
  it.change = [&](std::uint32_t i, cluster_options& x) {
    if (i == 1)
      x.agreed = "seed 2\x1b[2J";
    else
      x.log = [&](net::severity how, const std::string& line) {
        EXPECT_EQ(how, net::severity::warning);
        logged = line;
      };
  };
  it.join();
  EXPECT_EQ(it.members[1].code, ec::refused);
  EXPECT_TRUE(mentions(it.members[1].problem, "worker 1 has options seed 2"))
    << it.members[1].problem;
  EXPECT_TRUE(mentions(logged, "worker 1 has options seed 2")) << logged;
  EXPECT_FALSE(mentions(logged, "\x1b")) << "a terminal would execute it";
  EXPECT_EQ(it.members[0].code, ec::stalled);
  EXPECT_TRUE(mentions(it.members[0].problem, "worker 1 has options seed 2"))
    << it.members[0].problem;
}

TEST(Cluster, RejectsASecondProcessForATaskWhoseFirstLives) {
  company_of it{3};
  it.patience = 1s;
  it.members[2].at =
    it.members[1].at; // no peer connects to it: it is rejected before
  it.change = [](std::uint32_t i, cluster_options& x) {
    if (i == 2) {
      x.index = 1;
      x.job = "job";
      x.at = new_door();
    }
  };
  it.join();
  const auto &a = it.members[1], &b = it.members[2];
  EXPECT_TRUE((a.code == ec::refused) != (b.code == ec::refused));
  EXPECT_TRUE(mentions(a.problem + b.problem, "this is a second process"));
  EXPECT_TRUE(mentions(it.members[0].problem, "worker 2 did not join"));
}

TEST(Cluster, SuggestsAnotherProcessOfItsTaskIfItsAddressIsInUse) {
  const net::endpoint other{{.listen = net::address{"127.0.0.1", 0}}};
  runtime here;
  cluster_options mine;
  mine.addresses = {other.reachable_at(), {"127.0.0.1", 1}};
  try {
    const cluster it{here, mine};
    ADD_FAILURE() << "it listens on an address in use";
  } catch (const std::runtime_error& e) {
    EXPECT_TRUE(mentions(e.what(), "Address already in use; does another "
                                   "process say that it is worker 0?"))
      << e.what();
  }
}

TEST(Cluster, RejectsAnotherJob) {
  company_of it{2};
  it.patience = 300ms;
  it.change = [](std::uint32_t i, cluster_options& x) {
    if (i == 1)
      x.job = "another";
  };
  it.join();
  EXPECT_TRUE(
    mentions(it.members[1].problem, "expects 'control' of job 'another'"))
    << it.members[1].problem;
}

/// The leader's router serves another job before the leader joins.
TEST(Cluster, AdmitsAMemberThatConnectedBeforeItsLeaderJoined) {
  company_of it{2};
  const auto nobody =
    it.members[0].at->serve("another", "control",
                            {[](const net::hello&) { return net::verdict{}; },
                             [](const net::hello&, net::arrived&&) {}});
  std::promise<void> refused;
  it.members[1].at = door_that_hears_a_refusal(refused);
  std::thread early{[&] { it.join({1}); }};
  EXPECT_EQ(refused.get_future().wait_for(60s), std::future_status::ready);
  it.join({0});
  early.join();
  for (auto& x : it.members) {
    EXPECT_EQ(x.problem, "");
    x.in.reset(); // before the promise that its log sets
  }
  it.members[1].at.reset();
}

TEST(Cluster, AdmitsARestartedProcessWhileOthersAreMissing) {
  company_of it{3};
  std::thread first{[&] {
    auto x = it.options_of(1);
    x.at = new_door();
    x.patience = 200ms; // then it ends, and its connection closes
    x.farewell = 100ms;
    member killed;
    killed.attempt([&] { cluster gone{*killed.on, std::move(x)}; });
    EXPECT_NE(killed.problem, "");
  }};
  std::thread leader{[&] { it.join({0}); }};
  first.join();
  it.each({1, 2}, [&](member& x, std::uint32_t i) {
    x.in = std::make_unique<cluster>(*x.on, it.options_of(i));
  });
  leader.join();
  for (const auto& x : it.members)
    EXPECT_EQ(x.problem, "");
}

TEST(Cluster, LeaksNoDescriptor) {
  const auto open = [] {
    namespace fs = std::filesystem;
    return std::distance(fs::directory_iterator{"/proc/self/fd"}, {});
  };
  const auto join = [](transport_kind first, transport_kind second) {
    company_of it{2};
    it.change = [=](std::uint32_t i, cluster_options& x) {
      x.transport = i == 0 ? first : second;
    };
    it.join();
    EXPECT_EQ(first == second, it.members[0].problem.empty());
  };
  join(transport_kind::shm, transport_kind::shm); // opens what stays open
  const auto before = open();
  for (int i = 0; i < 3; ++i) {
    join(transport_kind::shm, transport_kind::shm);
    join(transport_kind::tcp, transport_kind::tcp);
    join(transport_kind::shm, transport_kind::tcp); // it fails
  }
  EXPECT_EQ(open(), before);
}

TEST(Cluster, ChecksItsOptions) {
  runtime on;
  const auto text = [&](auto change) -> std::string {
    cluster_options x;
    x.addresses = {{"127.0.0.1", 1}, {"127.0.0.1", 2}};
    change(x);
    try {
      cluster in{on, std::move(x)};
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_TRUE(mentions(text([](auto& x) { x.index = 2; }), "task 2"));
  EXPECT_TRUE(mentions(text([](auto& x) { x.addresses.clear(); }), "empty"));
  EXPECT_TRUE(mentions(text([](auto& x) { x.names = {"a"}; }), "1 names"));
  EXPECT_TRUE(mentions(text([](auto& x) { x.replicas = 0; }), "0 replicas"));
  EXPECT_TRUE(
    mentions(text([](auto& x) { x.transport = transport_kind::tls; }), "tls"));
}
