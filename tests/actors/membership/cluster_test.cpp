#include "troupe/actors/membership/cluster_impl.hpp"
#include "troupe/tests/actors/membership/clusters.hpp"

#include <filesystem>
#include <future>

// Tests of how processes join a job and leave it.

using namespace troupe;
using namespace troupe::testing;

namespace {

/// Closes the control connections of a process, as if it had died.
void disconnect(member& process) {
  auto& peers = *process.joined_cluster->implementation().peers();
  std::vector<std::shared_ptr<net::connection>> all;
  {
    const std::lock_guard hold{peers.lock};
    for (const auto& one : peers.entries)
      if (one.connection)
        all.push_back(one.connection);
  }
  for (const auto& one : all)
    one->close("the test has cut it");
}

/// Waits until a process knows this view. @returns the view that it knows.
membership::view wait_for_view(const member& process, std::uint64_t view_id) {
  auto& peers = *process.joined_cluster->implementation().peers();
  std::unique_lock hold{peers.lock};
  peers.wait(hold, peer_table::clock::now() + 20s,
             [&] { return peers.view.view_id >= view_id; });
  hold.unlock();
  return process.joined_cluster->current_view();
}

} // namespace

TEST(Cluster, IsCompleteWhenAllTasksHaveJoined) {
  cluster_fixture processes{3};
  processes.replicas = 2;
  processes.join();
  for (std::uint32_t i = 0; i < 3; ++i) {
    const auto& process = processes.members[i];
    ASSERT_EQ(process.problem, "");
    EXPECT_EQ(process.joined_cluster->task(), i);
    EXPECT_EQ(process.joined_cluster->processes(), 3u);
    EXPECT_EQ(process.joined_cluster->replicas(), 6u);
    EXPECT_EQ(process.joined_cluster->is_leader(), i == 0);
    EXPECT_EQ(process.joined_cluster->transport_to(i), "none");
  }
  EXPECT_EQ(processes.members[1].joined_cluster->transport_to(2),
            processes.members[2].joined_cluster->transport_to(1));
  processes.for_each_member(
    [](member& x, std::uint32_t) { x.joined_cluster->leave(); });
}

TEST(Cluster, AgreesOnAViewWithoutAProcessThatHasLeft) {
  cluster_fixture processes{3};
  processes.join();
  std::vector<membership::view> first;
  for (const auto& x : processes.members) {
    ASSERT_EQ(x.problem, "");
    first.push_back(x.joined_cluster->current_view());
    EXPECT_EQ(first.back(), first[0]);
  }
  EXPECT_EQ(first[0].view_id, 1u);
  EXPECT_EQ(first[0].members.size(), 3u);
  processes.members[1].joined_cluster->leave();
  for (const auto i : {0u, 2u}) {
    const auto second = wait_for_view(processes.members[i], 2);
    EXPECT_EQ(second.view_id, 2u);
    ASSERT_EQ(second.members.size(), 2u);
    EXPECT_TRUE(second.contains(0, first[0].find(0)->incarnation));
    EXPECT_TRUE(second.contains(2, first[0].find(2)->incarnation));
  }
  processes.for_each_member(
    {0, 2}, [](member& x, std::uint32_t) { x.joined_cluster->leave(); });
}

TEST(Cluster, AgreesOnAViewWithoutItsLeader) {
  cluster_fixture processes{3};
  processes.join();
  for (const auto& x : processes.members)
    ASSERT_EQ(x.problem, "");
  disconnect(processes.members[0]);
  const auto view = wait_for_view(processes.members[1], 2);
  ASSERT_EQ(view.members.size(), 2u);
  EXPECT_EQ(view.find(0), nullptr);
  std::vector<std::uint32_t> ids;
  for (const auto& x : view.members)
    ids.insert(ids.end(), x.replicas.begin(), x.replicas.end());
  std::ranges::sort(ids);
  EXPECT_EQ(ids, (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(wait_for_view(processes.members[2], 2), view);
  // One of three agrees on nothing. It may learn that it is excluded while the
  // second of its connections is still open.
  const auto own = processes.members[0].joined_cluster->current_view();
  EXPECT_TRUE(own.view_id == 1 || own.find(0) == nullptr) << own.view_id;
  processes.for_each_member(
    [](member& x, std::uint32_t) { x.joined_cluster->leave(); });
}

TEST(Cluster, ExcludesOneOfTwoParticipantsThatCannotReachEachOther) {
  cluster_fixture processes{3};
  processes.join();
  for (const auto& x : processes.members)
    ASSERT_EQ(x.problem, "");
  const auto connection_between = [&](std::uint32_t a, std::uint32_t b) {
    auto& peers =
      *processes.members[a].joined_cluster->implementation().peers();
    const std::lock_guard hold{peers.lock};
    return peers.entries[b].connection;
  };
  const auto to_leader = connection_between(2, 0);
  connection_between(1, 2)->close("the test has cut it");
  for (const auto i : {0u, 1u}) {
    const auto view = wait_for_view(processes.members[i], 2);
    EXPECT_EQ(view.view_id, 2u);
    EXPECT_EQ(view.find(2), nullptr) << "the higher task";
  }
  std::promise<std::string> end;
  to_leader->on_closed(
    [&](net::close_reason, const std::string& why) { end.set_value(why); });
  auto why = end.get_future();
  ASSERT_EQ(why.wait_for(20s), std::future_status::ready)
    << "the excluded process goes on";
  EXPECT_TRUE(mentions(why.get(), "worker 2 is excluded from view 2"));
  processes.for_each_member(
    [](member& x, std::uint32_t) { x.joined_cluster->leave(); });
}

TEST(Cluster, RejectsMoreReplicasThanAJobMayHave) {
  cluster_fixture processes{2};
  processes.replicas = max_replicas / 2 + 1;
  processes.start_timeout = 500ms;
  processes.join();
  EXPECT_EQ(processes.members[1].code, ec::refused);
  EXPECT_TRUE(mentions(processes.members[1].problem,
                       "worker 1 hosts 2049 replicas, but all processes "
                       "together may host at most 4096"))
    << processes.members[1].problem;
}

TEST(Cluster, CannotBeginWithoutAReplica) {
  cluster_fixture processes{2};
  processes.replicas = 0;
  processes.join();
  for (const auto& x : processes.members)
    EXPECT_EQ(x.problem, "job 'job' cannot begin: no process hosts a replica; "
                         "give one at least 1");
}

TEST(Cluster, UsesTheTransportOfTheOptions) {
  cluster_fixture processes{2};
  processes.adjust_options = [](std::uint32_t, cluster_options& x) {
    x.transport = transport_kind::tcp;
  };
  processes.join();
  ASSERT_TRUE(processes.members[0].joined_cluster
              && processes.members[1].joined_cluster);
  EXPECT_EQ(processes.members[0].joined_cluster->transport_to(1), "tcp");
}

TEST(Cluster, NamesTheMissingTasksIfTheStartTimesOut) {
  cluster_fixture processes{4};
  processes.start_timeout = 900ms;
  processes.join({0, 2});
  for (const auto i : {0, 2}) {
    EXPECT_EQ(processes.members[std::size_t(i)].code, ec::stalled);
    EXPECT_EQ(processes.members[std::size_t(i)].problem,
              "job 'job' cannot begin: for 900 ms worker 1 and worker 3 did "
              "not join ("
                + to_string(processes.addresses[1]) + ", "
                + to_string(processes.addresses[3]) + ")");
  }
}

/// The host of the leader is unknown to a participant, or the other way round.
/// A name with an empty label is unknown without a question to a name server.
TEST(Cluster, SaysWhichHostIsUnknownWhileItWaits) {
  for (const std::uint32_t waiting : {0u, 1u}) {
    std::mutex lock;
    std::string logged;
    bool was_waiting = false;
    cluster_fixture processes{2};
    processes.start_timeout = 2000ms;
    processes.addresses[1 - waiting] = {"no-such-host..invalid", 1234};
    processes.adjust_options = [&](std::uint32_t, cluster_options& x) {
      x.log = [&](net::severity how, const std::string& line) {
        const std::lock_guard hold{lock};
        if (how == net::severity::warning
            && mentions(line, "waits for a host that is unknown here")) {
          logged += line;
          was_waiting = processes.members[waiting].problem.empty();
        }
      };
    };
    processes.join({waiting});
    EXPECT_TRUE(mentions(logged, "'no-such-host..invalid' cannot be found"))
      << logged;
    EXPECT_TRUE(was_waiting);
    EXPECT_TRUE(mentions(processes.members[waiting].problem,
                         "'no-such-host..invalid' cannot be found"))
      << processes.members[waiting].problem;
  }
}

TEST(Cluster, NamesTheLeaderIfItIsMissing) {
  cluster_fixture processes{2};
  processes.start_timeout = 300ms;
  processes.join({1});
  EXPECT_TRUE(mentions(processes.members[1].problem, "chief 0"))
    << processes.members[1].problem;
}

/// Also the leader tells it, for which the others wait.
TEST(Cluster, EndsTheStartOfAllIfAProcessCannotTakePart) {
  for (const std::uint32_t lacking : {0u, 2u}) {
    cluster_fixture processes{3};
    processes.start_timeout = 60s;
    processes.adjust_options = [&](std::uint32_t i, cluster_options& x) {
      if (i == lacking)
        x.start_failure = "data.csv: No such file";
    };
    processes.join();
    for (const auto& x : processes.members)
      EXPECT_TRUE(mentions(
        x.problem, (lacking == 0 ? "chief 0" : "worker 2")
                     + std::string{" cannot take part in the job: data.csv: "
                                   "No such file"}))
        << x.problem;
  }
}

TEST(Cluster, ReportsAnotherConfigurationOnBothSides) {
  std::string logged;
  cluster_fixture processes{2};
  processes.start_timeout = 500ms;
  processes.adjust_options = [&](std::uint32_t i, cluster_options& x) {
    if (i == 1)
      x.shared_config = "seed 2\x1b[2J";
    else
      x.log = [&](net::severity how, const std::string& line) {
        EXPECT_EQ(how, net::severity::warning);
        logged = line;
      };
  };
  processes.join();
  EXPECT_EQ(processes.members[1].code, ec::refused);
  EXPECT_TRUE(
    mentions(processes.members[1].problem, "worker 1 has options seed 2"))
    << processes.members[1].problem;
  EXPECT_TRUE(mentions(logged, "worker 1 has options seed 2")) << logged;
  EXPECT_FALSE(mentions(logged, "\x1b")) << "a terminal would execute it";
  EXPECT_EQ(processes.members[0].code, ec::stalled);
  EXPECT_TRUE(
    mentions(processes.members[0].problem, "worker 1 has options seed 2"))
    << processes.members[0].problem;
}

TEST(Cluster, RejectsASecondProcessForATaskWhoseFirstLives) {
  cluster_fixture processes{3};
  processes.start_timeout = 1s;
  processes.members[2].router =
    processes.members[1].router; // unused: `adjust_options` sets another router
  processes.adjust_options = [](std::uint32_t i, cluster_options& x) {
    if (i == 2) {
      x.task = 1;
      x.job = "job";
      x.router = make_router();
    }
  };
  processes.join();
  const auto &a = processes.members[1], &b = processes.members[2];
  EXPECT_TRUE((a.code == ec::refused) != (b.code == ec::refused));
  EXPECT_TRUE(mentions(a.problem + b.problem, "this is a second process"));
  EXPECT_TRUE(mentions(processes.members[0].problem, "worker 2 did not join"));
}

TEST(Cluster, SuggestsAnotherProcessOfItsTaskIfItsAddressIsInUse) {
  const net::endpoint other{{.listen = net::address{"127.0.0.1", 0}}};
  runtime here;
  cluster_options mine;
  mine.addresses = {other.advertised_address(), {"127.0.0.1", 1}};
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
  cluster_fixture processes{2};
  processes.start_timeout = 300ms;
  processes.adjust_options = [](std::uint32_t i, cluster_options& x) {
    if (i == 1)
      x.job = "another";
  };
  processes.join();
  EXPECT_TRUE(mentions(processes.members[1].problem,
                       "no service 'control' of job 'another'"))
    << processes.members[1].problem;
}

/// The router of the leader serves another job before the leader joins, so it
/// accepts connections. It rejects the member, and the member tries again until
/// the leader has joined.
TEST(Cluster, AdmitsAMemberThatConnectedBeforeItsLeaderJoined) {
  cluster_fixture processes{2};
  const auto registration = processes.members[0].router->serve(
    "another", "control",
    {[](const net::hello&) { return net::hello_response{}; },
     [](const net::hello&, net::accepted_connection&&) {}});
  processes.members[0].router->open();
  std::promise<void> refused;
  processes.members[1].router = make_router_that_reports_rejection(refused);
  std::thread early{[&] { processes.join({1}); }};
  EXPECT_EQ(refused.get_future().wait_for(60s), std::future_status::ready);
  processes.join({0});
  early.join();
  for (auto& x : processes.members) {
    EXPECT_EQ(x.problem, "");
    x.joined_cluster.reset(); // uses the router of the member
  }
  processes.members[1].router.reset(); // its log uses the promise
}

TEST(Cluster, AdmitsARestartedProcessWhileOthersAreMissing) {
  cluster_fixture processes{3};
  std::thread first{[&] {
    auto options = processes.options_of(1);
    options.router = make_router();
    options.start_timeout = 200ms; // afterwards, the process disconnects
    options.shutdown_timeout = 100ms;
    member killed;
    killed.attempt([&] {
      cluster gone{*killed.local_runtime, std::move(options)};
    });
    EXPECT_NE(killed.problem, "");
  }};
  std::thread leader{[&] { processes.join({0}); }};
  first.join();
  processes.for_each_member({1, 2}, [&](member& x, std::uint32_t i) {
    x.joined_cluster =
      std::make_unique<cluster>(*x.local_runtime, processes.options_of(i));
  });
  leader.join();
  for (const auto& x : processes.members)
    EXPECT_EQ(x.problem, "");
}

TEST(Cluster, LeaksNoDescriptor) {
  const auto open = [] {
    namespace fs = std::filesystem;
    return std::distance(fs::directory_iterator{"/proc/self/fd"}, {});
  };
  const auto join = [](transport_kind first, transport_kind second) {
    cluster_fixture processes{2};
    processes.adjust_options = [=](std::uint32_t i, cluster_options& x) {
      x.transport = i == 0 ? first : second;
    };
    processes.join();
    EXPECT_EQ(first == second, processes.members[0].problem.empty());
  };
  join(transport_kind::shm, transport_kind::shm); // opens lasting descriptors
  const auto before = open();
  for (int i = 0; i < 3; ++i) {
    join(transport_kind::shm, transport_kind::shm);
    join(transport_kind::tcp, transport_kind::tcp);
    join(transport_kind::shm, transport_kind::tcp); // the job fails
  }
  EXPECT_EQ(open(), before);
}

TEST(Cluster, ChecksItsOptions) {
  runtime local_runtime;
  const auto text = [&](auto change) -> std::string {
    cluster_options x;
    x.addresses = {{"127.0.0.1", 1}, {"127.0.0.1", 2}};
    change(x);
    try {
      cluster in{local_runtime, std::move(x)};
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_TRUE(mentions(text([](auto& x) { x.task = 2; }), "task 2"));
  EXPECT_TRUE(mentions(text([](auto& x) { x.addresses.clear(); }), "empty"));
  EXPECT_TRUE(mentions(text([](auto& x) { x.names = {"a"}; }), "1 names"));
  EXPECT_TRUE(mentions(text([](auto& x) { x.replicas = max_replicas + 1; }),
                       "4097 replicas; give at most 4096"));
  EXPECT_TRUE(mentions(text([](auto& x) {
                         x.addresses.pop_back();
                         x.replicas = 0;
                       }),
                       "0 replicas in the only process"));
  EXPECT_TRUE(
    mentions(text([](auto& x) { x.transport = transport_kind::tls; }), "tls"));
}
