#include "clusters.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <latch>

namespace {

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;
using implementations = communication_options::implementations;

TEST(ClusterTraining, WeightsEqualThoseOfOneProcess) {
  for (const auto transport : {transport_kind::shm, transport_kind::tcp})
    for (const std::uint32_t workers : {2, 3}) {
      const auto expected = weights_after_fit(turns(workers));
      expect_nothing_thrown(run_on_cluster(
        workers, {.transport = transport}, [&](const strategy& on, auto) {
          EXPECT_EQ(on.transport(),
                    transport == transport_kind::shm ? "shm" : "tcp");
          EXPECT_EQ(weights_after_fit(on), expected);
        }));
    }
}

TEST(ClusterTraining, HasSeveralReplicasInEachProcess) {
  const auto expected = weights_after_fit(turns(4));
  expect_nothing_thrown(run_on_cluster(
    2, {.devices = {"cpu:0", "cpu:1"}}, [&](const strategy& on, auto) {
      EXPECT_EQ(on.num_replicas_in_sync(), 4u);
      EXPECT_EQ(weights_after_fit(on), expected);
    }));
}

TEST(ClusterTraining, ReducesGathersAndBroadcasts) {
  expect_nothing_thrown(
    run_on_cluster(3, {}, [](const strategy& strategy, std::uint32_t) {
      const auto values = strategy.values_from([](std::uint32_t id) {
        return tensor::full({std::int64_t{id} + 1}, double(id) + 1);
      });
      EXPECT_EQ(strategy.reduce(mean, values, {0}).item<float>(), 14.0f / 6);
      EXPECT_TRUE(same_bits(strategy.gather(values, 0),
                            tensor::of<float>({6}, {1, 2, 2, 3, 3, 3})));
      strategy.run([](replica_context& self) {
        tensors many;
        for (int i = 0; i < 1000; ++i)
          many.push_back(tensor::full({16, 64}, i + double(self.replica_id())));
        const auto sums = self.all_reduce(sum, many);
        for (int i = 0; i < 1000; ++i)
          EXPECT_EQ(sums[std::size_t(i)].data<float>()[7], 3.0f * float(i) + 3);
        const auto root = self.broadcast(tensor::full({2}, 5), 2);
        EXPECT_EQ(root.data<float>()[1], 5.0f);
        const auto whole =
          tensor::full({}, double(self.replica_id()), dtype::int64);
        EXPECT_EQ(self.all_reduce(sum, whole).item<std::int64_t>(), 3);
      });
    }));
}

/// A ring adds the contributions in the order of ranks, beginning with another
/// worker for each chunk. Chunk c of the collective with sequence k begins with
/// worker (k + c) mod P, where P is the number of workers. Here each sum has
/// only chunk 0.
TEST(ClusterTraining, RingSumsInRingOrder) {
  const auto contribution = [](std::uint32_t r) {
    return std::ldexp(1.f, 24) / (r + 1);
  };
  for (const auto by : {transport_kind::shm, transport_kind::tcp}) {
    const multi_worker_options options{
      .communication = {.implementation = implementations::ring},
      .transport = by};
    expect_nothing_thrown(
      run_on_cluster(3, options, [&](const strategy& on, std::uint32_t) {
        on.run([&](replica_context& self) {
          const auto own_tensor =
            tensor::full({5000}, contribution(self.replica_id()));
          for (std::uint32_t k = 0; k < 4; ++k) {
            const bool tree = k == 3;
            const auto first = tree ? 0 : k;
            const auto got = self.all_reduce(
              sum, own_tensor,
              {.implementation =
                 tree ? implementations::tree : implementations::automatic});
            const auto wanted = contribution(first)
                                + contribution((first + 1) % 3)
                                + contribution((first + 2) % 3);
            EXPECT_EQ(got.data<float>()[4999], wanted) << k;
          }
        });
      }));
  }
}

TEST(ClusterTraining, RingFitIsReproducibleAndEqualOnAllWorkers) {
  for (const auto transport : {transport_kind::shm, transport_kind::tcp}) {
    static std::string first;
    const multi_worker_options options{
      .devices = {"cpu:0", "cpu:1"},
      .communication = {.implementation = implementations::ring},
      .transport = transport};
    std::vector<std::string> found(3);
    expect_nothing_thrown(
      run_on_cluster(3, options, [&](const strategy& on, std::uint32_t w) {
        found[w] = weights_after_fit(on);
      }));
    if (first.empty())
      first = found[0];
    for (const auto& one : found)
      EXPECT_EQ(one, first);
    EXPECT_NE(first, weights_after_fit(turns(6))) << "it is no tree";
  }
}

// -- uneven replicas ----------------------------------------------------------

TEST(ClusterTraining, ReplicasNeedNotBeAMultipleOfTheWorkers) {
  for (const auto& [workers, replicas] :
       {std::pair{3u, 4u}, std::pair{2u, 3u}, std::pair{3u, 5u},
        std::pair{2u, 2u}}) {
    const auto expected = weights_after_fit(turns(replicas));
    std::vector<std::string> found(workers);
    std::vector<std::vector<std::uint32_t>> ids(workers);
    expect_nothing_thrown(
      run_on_cluster(workers, {.replicas = replicas},
                     [&, all = replicas](const strategy& on, std::uint32_t w) {
                       EXPECT_EQ(on.num_replicas_in_sync(), all);
                       ids[w] = on.local_replica_ids();
                       found[w] = weights_after_fit(on);
                     }));
    std::uint32_t next = 0;
    for (std::uint32_t w = 0; w < workers; ++w) {
      EXPECT_EQ(found[w], expected) << w;
      EXPECT_EQ(ids[w].size(), replicas_of_worker(replicas, workers, w));
      for (const auto id : ids[w])
        EXPECT_EQ(id, next++);
    }
  }
}

TEST(ClusterTraining, EachWorkerNeedsAReplica) {
  const auto thrown =
    run_on_cluster(3, {.replicas = 2}, [](const strategy&, std::uint32_t) {});
  for (const auto& x : thrown)
    EXPECT_EQ(
      exception_text(x),
      "replicas 2: the job has 3 workers, each of which needs one; give "
      "at least 3, or fewer workers");
}

// -- call options -------------------------------------------------------------

TEST(ClusterTraining, DifferentCallOptionsNameTheReplica) {
  const auto said_if_0_asks = [](const call_options& how) {
    const auto thrown = run_on_cluster(2, {}, [&](const strategy& on, auto) {
      on.run([&](replica_context& self) {
        self.all_reduce(sum, tensor::full({4}, 1),
                        self.replica_id() == 0 ? how : call_options{});
      });
    });
    EXPECT_NE(exception_text(thrown[1]), "");
    return exception_text(thrown[0]);
  };
  const auto has = [](const std::string& said, const std::string& a) {
    EXPECT_NE(said.find(a), said.npos) << said;
    EXPECT_NE(said.find("do not pass the same options"), said.npos) << said;
  };
  has(said_if_0_asks({.bytes_per_pack = 8}), "by tree with bytes_per_pack 8");
  has(said_if_0_asks({.timeout = 70s}), "by tree with timeout 70000 ms");
  has(said_if_0_asks({.implementation = implementations::ring}), "by ring");
}

TEST(ClusterTraining, AllReduceOfOtherDtypesOrNumbersNamesBoth) {
  const auto f32 = tensor::full({3}, 1);
  const auto i32 = tensor::full({3}, 1, dtype::int32);
  const auto has = [](const tensors& of_0, const tensors& of_1,
                      const std::vector<std::string>& texts) {
    const auto thrown = run_on_cluster(2, {}, [&](const strategy& on, auto) {
      on.run([&](replica_context& self) {
        self.all_reduce(sum, self.replica_id() == 0 ? of_0 : of_1);
      });
    });
    EXPECT_NE(exception_text(thrown[1]), "");
    const auto said = exception_text(thrown[0]);
    for (const auto& text : texts)
      EXPECT_NE(said.find(text), said.npos)
        << "\"" << text << "\" is missing in: " << said;
  };
  const std::string differ = "do not call the same collectives";
  has({f32}, {i32}, {"bucket 0 of ", "gather 0 of int32[3]", differ});
  has({i32}, {f32}, {"bucket 0 of ", "gather 0 of int32[3]", differ});
  has({i32, i32}, {i32}, {"for 1 tensor", "for 2 tensors"});
  has({f32, i32}, {f32}, {"for 1 tensor", "for 2 tensors"});
  has({f32, i32}, {i32, f32}, {"gather 1", "gather 2", differ});
}

TEST(ClusterTraining, CallTimeoutNamesTheMissingReplica) {
  std::latch waited{1};
  const auto thrown =
    run_on_cluster(2, {}, [&](const strategy& on, std::uint32_t) {
      on.run([&](replica_context& self) {
        if (self.replica_id() == 1)
          return waited.wait();
        const struct release {
          ~release() { waited.count_down(); }
          std::latch& waited;
        } at_end{waited};
        self.all_reduce(sum, tensor::full({4}, 1), {.timeout = 60ms});
      });
    });
  const auto said = exception_text(thrown[0]);
  EXPECT_NE(
    said.find("for 60 ms, the timeout of its call; it misses replica 1"),
    said.npos)
    << said;
}

TEST(ClusterTraining, ReduceTimeoutNamesTheMissingWorkers) {
  const multi_worker_options options{
    .communication = {.timeout = std::chrono::milliseconds{1000}}};
  std::latch waited{1};
  const auto thrown =
    run_on_cluster(3, options, [&](const strategy& strategy, std::uint32_t w) {
      if (w > 0)
        return waited.wait();
      const struct release {
        ~release() { waited.count_down(); }
        std::latch& waited;
      } at_end{waited};
      strategy.reduce(sum, strategy.values_from([](auto) { return 1.0; }));
    });
  const auto said = exception_text(thrown[0]);
  EXPECT_NE(said.find("worker 1"), said.npos) << said;
  EXPECT_NE(said.find("worker 2"), said.npos) << said;
}

TEST(ClusterTraining, ExceptionOfAReplicaReachesAllWorkers) {
  const auto thrown =
    run_on_cluster(2, {}, [](const strategy& on, std::uint32_t) {
      on.run([](replica_context& self) {
        if (self.replica_id() == 1)
          throw std::runtime_error("the disk went away");
        self.all_reduce(sum, tensor::full({4}, 1));
      });
    });
  EXPECT_EQ(exception_text(thrown[1]), "the disk went away");
  EXPECT_NE(exception_text(thrown[0]).find("the disk went away"),
            std::string::npos)
    << exception_text(thrown[0]);
}

TEST(ClusterTraining, RunsAloneWithoutACluster) {
  runtime actors;
  const net::simple_resolver alone{net::cluster_spec{}};
  const multi_worker_mirrored_strategy strategy{
    actors, alone, {.devices = {"cpu:0", "cpu:1"}}};
  EXPECT_EQ(strategy.name(), "multi_worker_mirrored");
  EXPECT_EQ(strategy.workers(), 1u);
  EXPECT_EQ(strategy.transport(), "none");
  EXPECT_EQ(weights_after_fit(strategy), weights_after_fit(turns(2)));
}

TEST(ClusterTraining, ProcessWithoutATaskIsRejected) {
  runtime actors;
  const net::simple_resolver resolver{
    net::cluster_spec{std::map<std::string, net::cluster_spec::list>{
      {"worker", {"127.0.0.1:1", "127.0.0.1:2"}}}}};
  EXPECT_THROW((multi_worker_mirrored_strategy{actors, resolver}),
               std::invalid_argument);
  EXPECT_THROW(
    (multi_worker_mirrored_strategy{actors, resolver, {.threads = 0}}),
    std::invalid_argument);
}

} // namespace
