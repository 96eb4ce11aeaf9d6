#include "troupe/actors/collectives/nccl/nccl_setup.hpp"
#include "troupe/actors/group/group_environment.hpp"
#include "troupe/actors/group/respawning_group.hpp"
#include "troupe/tests/actors/collectives/nccl/fake_nccl.hpp"
#include "troupe/tests/tensors/simulated_device.hpp"
#include "troupe/tests/training/strategies/losses.hpp"

#include <caf/actor_addr.hpp>
#include <caf/actor_cast.hpp>
#include <caf/exit_reason.hpp>
#include <caf/send.hpp>
#include <gtest/gtest.h>

#include <future>
#include <map>
#include <set>

// Actors of a job of one process that end while it trains.

namespace {

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;
using troupe::testing::fake_nccl;
using kind = role_id::kind;

/// A mirrored strategy whose actors a test can kill.
class stage {
public:
  explicit stage(std::uint32_t replicas, const device& on = {})
    : stage{std::vector(replicas, on)} {}
  /// @param devices one for each replica.
  /// @param nccl    adds the sums on the devices. Null: the host does.
  explicit stage(const std::vector<device>& devices,
                 std::shared_ptr<nccl_setup> nccl = nullptr) {
    replica_group_options options{.replicas =
                                    static_cast<std::uint32_t>(devices.size())};
    options.reducers = replica_group_options::reducer_kind::reducer_actors;
    const group_environment environment{
      .system = actors_.system(),
      .on_spawn = [this](const role_id& id, const caf::actor& role) {
        const std::lock_guard hold{lock_};
        auto& entry = roles_[{id.role, id.id}];
        entry.actor = role.address();
        entry.end = std::make_shared<std::promise<void>>();
        role->attach_functor([end = entry.end] { end->set_value(); });
      }};
    state_ =
      make_strategy_state(make_respawning_group(
                            [this, environment, options, nccl] {
                              ++groups_;
                              auto with_ranks = environment;
                              if (nccl)
                                with_ranks.ranks = nccl->make_for_one_process(
                                  options.replicas, options.step_timeout);
                              return make_replica_group(with_ranks, options);
                            },
                            {.now = [this] { return now_; }}),
                          "mirrored", devices, 1);
  }

  strategy get() const { return strategy{state_}; }
  int groups() const { return groups_; }
  void advance(std::chrono::seconds time) { now_ += time; }

  /// Returns when the actor has ended.
  void kill(kind role, std::uint32_t number) {
    std::future<void> end;
    {
      const std::lock_guard hold{lock_};
      auto& entry = roles_.at({role, number});
      end = entry.end->get_future();
      caf::anon_send_exit(caf::actor_cast<caf::actor>(entry.actor),
                          caf::exit_reason::kill);
    }
    EXPECT_EQ(end.wait_for(60s), std::future_status::ready);
  }

private:
  runtime actors_;
  std::mutex lock_;
  struct spawned_role {
    caf::actor_addr actor;
    std::shared_ptr<std::promise<void>> end;
  };
  std::map<std::pair<kind, std::uint32_t>, spawned_role> roles_;
  std::chrono::steady_clock::time_point now_{};
  int groups_ = 0;
  std::shared_ptr<strategy_state> state_;
};

struct killed_role {
  kind role;
  std::uint32_t number;
  std::uint64_t step; ///< After the commit of this one.
};

void PrintTo(const killed_role& x, std::ostream* out) {
  *out << (x.role == kind::replica   ? "replica "
           : x.role == kind::reducer ? "reducer "
                                     : "chief ")
       << x.number << " after step " << x.step;
}

struct respawn_outcome {
  std::string weights;
  history past;
  step_list steps;
};

/// Fits epochs of 13 steps.
respawn_outcome fit_on(const strategy& on,
                       const std::function<void(std::uint64_t)>& on_step = {},
                       std::uint64_t epochs = 2,
                       graph_capture graph = graph_capture::off) {
  const auto scope = on.scope();
  auto it = small_model();
  fit_options how{.epochs = epochs, .graph = graph};
  how.validation = uneven_batches();
  respawn_outcome out;
  how.callbacks.push_back({.on_step = [&](const step_record& x) {
    out.steps.push_back(x.step);
    if (on_step)
      on_step(x.step);
  }});
  out.past = it.fit(uneven_batches(), how);
  out.weights = it.weights_sha256();
  return out;
}

void expect_equal(const respawn_outcome& found,
                  const respawn_outcome& expected) {
  EXPECT_EQ(found.weights, expected.weights);
  EXPECT_EQ(found.steps, expected.steps);
  ASSERT_EQ(found.past.epochs.size(), expected.past.epochs.size());
  for (std::size_t e = 0; e < found.past.epochs.size(); ++e) {
    EXPECT_EQ(found.past.epochs[e].examples, expected.past.epochs[e].examples);
    EXPECT_EQ(found.past.epochs[e].loss, expected.past.epochs[e].loss);
    EXPECT_EQ(found.past.epochs[e].accuracy, expected.past.epochs[e].accuracy);
    EXPECT_EQ(found.past.epochs[e].validation_loss,
              expected.past.epochs[e].validation_loss);
  }
}

/// The commits of at most 8 steps follow the end of an actor.
class Respawn : public ::testing::TestWithParam<
                  std::pair<std::uint32_t, std::vector<killed_role>>> {};

TEST_P(Respawn, EndsWithTheUndisturbedBits) {
  const auto& [replicas, kills] = GetParam();
  stage it{replicas};
  const auto found = fit_on(it.get(), [&, kills = kills](std::uint64_t step) {
    for (const auto& x : kills)
      if (x.step == step)
        it.kill(x.role, x.number);
  });
  EXPECT_EQ(it.groups(), 1 + int(kills.size()));
  expect_equal(found, fit_on(turns(replicas)));
}

INSTANTIATE_TEST_SUITE_P(
  All, Respawn,
  ::testing::Values(
    std::pair{2u, std::vector<killed_role>{{kind::replica, 0, 4}}},
    std::pair{2u, std::vector<killed_role>{{kind::replica, 1, 4}}},
    std::pair{4u, std::vector<killed_role>{{kind::replica, 2, 0}}},
    std::pair{4u, std::vector<killed_role>{{kind::replica, 3, 3},
                                           {kind::replica, 0, 13},
                                           {kind::replica, 3, 23}}},
    std::pair{2u, std::vector<killed_role>{{kind::chief, 0, 6}}},
    std::pair{4u, std::vector<killed_role>{{kind::reducer, 1, 2}}}));

/// Depending on the time, one copy of the parameters has made an update that
/// another has not.
TEST(RespawnCases, CopiesOnSeveralDevicesEndWithTheUndisturbedBits) {
  const simulated_devices devices;
  const std::vector on{device{device_kind::cuda, 0},
                       device{device_kind::cuda, 1}};
  const auto expected = fit_on(turns(2));
  for (const bool uses_nccl : {false, true})
    for (const auto role : {kind::replica, kind::chief})
      for (const std::uint64_t step : {4, 13, 20}) {
        const auto nccl = std::make_shared<fake_nccl>(
          fake_nccl::options{.seed = 3, .steps_in_queries = true});
        stage it{on,
                 uses_nccl ? std::make_shared<nccl_setup>(device_sum_options{
                   .policy = device_sum_policy::required,
                   .devices = {nccl->make_device({}), nccl->make_device({})}})
                           : nullptr};
        const auto found = fit_on(it.get(), [&](std::uint64_t at) {
          if (at == step)
            it.kill(role, role == kind::replica ? 1 : 0);
        });
        EXPECT_EQ(it.groups(), 2);
        expect_equal(found, expected);
        EXPECT_EQ(nccl->groups_of(1).size() > 10, uses_nccl);
        EXPECT_EQ(nccl->violations(), std::set<std::string>{});
      }
}

TEST(RespawnCases, TheFourthEndWithin60SecondsIsAnErrorThatListsTheOthers) {
  for (const bool in_time : {true, false}) {
    stage it{2};
    std::string text;
    try {
      fit_on(
        it.get(),
        [&](std::uint64_t step) {
          if (step % 10 != 0)
            return;
          if (step == 30)
            it.advance(in_time ? 59s : 60s);
          it.kill(kind::replica, 1);
        },
        3);
    } catch (const job_error& e) {
      text = e.what();
    }
    EXPECT_EQ(text.empty(), !in_time) << text;
    std::size_t ends = 0;
    for (auto at = text.find("replica 1 "); at != text.npos;
         at = text.find("replica 1 ", at + 1))
      ++ends;
    if (in_time) {
      EXPECT_GE(ends, 4u) << text;
      EXPECT_NE(text.find("before, within 60 s: "), text.npos) << text;
    }
    EXPECT_EQ(it.groups(), in_time ? 4 : 5);
  }
}

TEST(RespawnCases, AGraphIsCapturedAnewInALaterView) {
  simulated_devices devices;
  stage it{1, {device_kind::cuda, 0}};
  const auto found = fit_on(
    it.get(),
    [&](std::uint64_t step) {
      if (step == 6)
        it.kill(kind::replica, 0);
    },
    2, graph_capture::on);
  EXPECT_EQ(it.groups(), 2);
  EXPECT_EQ(devices.captures, 2);
  EXPECT_GT(devices.launches, 10);
  expect_equal(found, fit_on(turns(1)));
}

/// An exception of user code is not an end of a role.
TEST(RespawnCases, AnExceptionOfUserCodeEndsTheRunAndTheJobStaysUsable) {
  stage it{2};
  const auto on = it.get();
  EXPECT_THROW(on.run([](replica_context& self) {
    if (self.replica_id() == 1)
      throw std::out_of_range("the user's error");
  }),
               std::out_of_range);
  EXPECT_EQ(it.groups(), 1);
  expect_equal(fit_on(on), fit_on(turns(2)));
}

} // namespace
