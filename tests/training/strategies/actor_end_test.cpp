#include "losses.hpp"
#include "replica_ends.hpp"

#include <gtest/gtest.h>

#include <atomic>

// Actors of the chief, of local agents and of replicas that end in a job of
// several processes.

namespace {

using namespace troupe;
using namespace troupe::test;

// -- the chief and local agents -----------------------------------------------

struct case_of_end {
  role_id::kind role;
  message_kind kind;
  int messages; ///< Of this kind that the role sends before it throws.
};

/// An actor of a role throws when it sends a message.
class failing_role final : public fault_injector {
public:
  explicit failing_role(const case_of_end& when)
    : when_{when}, left_{when.messages} {}

  injected_fault on_send(const role_id& sender, const role_id&,
                         message_kind kind, std::uint64_t,
                         std::uint64_t) override {
    if (sender.role != when_.role || kind != when_.kind || left_-- != 0)
      return {};
    has_thrown = true;
    throw std::runtime_error{"the disk is full"};
  }

  std::atomic<bool> has_thrown = false;

private:
  const case_of_end when_;
  std::atomic<int> left_;
};

class RoleEnd : public ::testing::TestWithParam<case_of_end> {};

TEST_P(RoleEnd, LetsAllRolesBeMadeAgainAndChangesNoBit) {
  constexpr std::uint32_t workers = 3;
  const auto faults = std::make_shared<failing_role>(GetParam());
  multi_worker_options options;
  options.faults = faults;
  std::vector<std::string> weights(workers);
  std::vector<std::size_t> members(workers);
  const auto thrown =
    run_on_cluster(workers, options, [&](const strategy& on, std::uint32_t w) {
      const auto scope = on.scope();
      auto it = small_model();
      it.fit(uneven_batches(), {.epochs = 2});
      weights[w] = it.weights_sha256();
      members[w] =
        peers_of(on).get([&] { return peers_of(on).view.members.size(); });
    });
  EXPECT_TRUE(faults->has_thrown);
  const auto expected = weights_after_fit(turns(workers));
  for (std::uint32_t w = 0; w < workers; ++w) {
    EXPECT_EQ(exception_text(thrown[w]), "");
    EXPECT_EQ(weights[w], expected);
    EXPECT_EQ(members[w], workers);
  }
}

INSTANTIATE_TEST_SUITE_P(
  All, RoleEnd,
  ::testing::Values(
    case_of_end{role_id::kind::chief, message_kind::configure, 1},
    case_of_end{role_id::kind::chief, message_kind::start_steps, 4},
    case_of_end{role_id::kind::chief, message_kind::notification, 4},
    case_of_end{role_id::kind::local_agent, message_kind::step_done, 5},
    case_of_end{role_id::kind::local_agent, message_kind::notification, 2}));

// -- replicas -----------------------------------------------------------------

struct end_outcome {
  std::string weights; ///< Empty: the fit threw.
  step_list steps;
  membership::view view;   ///< At the end.
  std::string later_error; ///< Of a call after a fit that threw.
};

struct job_outcome {
  std::vector<end_outcome> processes;
  std::vector<std::string> errors;
  int ends = 0;
};

/// The actor of a replica ends when it has made each of some steps.
job_outcome fit_with_ends(std::uint32_t workers, std::uint32_t replica,
                          const step_set& steps) {
  const auto faults = std::make_shared<failing_reports>(replica, steps);
  multi_worker_options options;
  options.faults = faults;
  job_outcome out;
  out.processes.resize(workers);
  const auto thrown =
    run_on_cluster(workers, options, [&](const strategy& on, std::uint32_t w) {
      auto& own = out.processes[w];
      const auto scope = on.scope();
      auto it = small_model();
      fit_options how{.epochs = 2};
      how.callbacks.push_back({.on_step = [&](const step_record& x) {
        if (!x.repeated)
          own.steps.push_back(x.step);
      }});
      try {
        it.fit(uneven_batches(), how);
      } catch (const job_error&) {
        try {
          it.evaluate(uneven_batches());
        } catch (const job_error& e) {
          own.later_error = e.what();
        }
        throw;
      }
      own.weights = it.weights_sha256();
      own.view = on.state()->cluster->current_view();
    });
  for (const auto& x : thrown)
    out.errors.push_back(exception_text(x));
  out.ends = faults->ends;
  return out;
}

void expect_undisturbed(const end_outcome& found, std::uint32_t replicas) {
  EXPECT_EQ(found.weights, weights_after_fit(turns(replicas)));
  EXPECT_EQ(found.steps, steps_to(26));
}

/// Number of workers, and the replica and worker that fails.
class ReplicaEnd
  : public ::testing::TestWithParam<std::pair<std::uint32_t, std::uint32_t>> {};

TEST_P(ReplicaEnd, LetsAllReplicasBeMadeAgainAndChangesNoBit) {
  const auto [workers, victim] = GetParam();
  const auto found = fit_with_ends(workers, victim, {0, 5, 20});
  EXPECT_EQ(found.ends, 3);
  for (std::uint32_t w = 0; w < workers; ++w) {
    EXPECT_EQ(found.errors[w], "");
    expect_undisturbed(found.processes[w], workers);
    EXPECT_EQ(found.processes[w].view.members.size(), workers);
  }
}

TEST_P(ReplicaEnd, LetsItsProcessLeaveAtTheFourthAndTheOthersGoOn) {
  const auto [workers, victim] = GetParam();
  const auto found = fit_with_ends(workers, victim, {0, 5, 13, 20});
  EXPECT_EQ(found.ends, 4);
  const auto& text = found.errors[victim];
  std::size_t ends = 0;
  for (auto at = text.find("the disk is full"); at != text.npos;
       at = text.find("the disk is full", at + 1))
    ++ends;
  EXPECT_EQ(ends, 4u) << text;
  EXPECT_EQ(text.rfind("replica " + std::to_string(victim) + " ", 0), 0u)
    << text;
  EXPECT_NE(text.find("; so this process has left its job"), text.npos) << text;
  EXPECT_EQ(found.processes[victim].later_error, text);
  for (std::uint32_t w = 0; w < workers; ++w)
    if (w != victim) {
      EXPECT_EQ(found.errors[w], "");
      expect_undisturbed(found.processes[w], workers);
      EXPECT_EQ(found.processes[w].view.members.size(), workers - 1);
    }
}

INSTANTIATE_TEST_SUITE_P(All, ReplicaEnd,
                         ::testing::Values(std::pair{2u, 0u}, std::pair{2u, 1u},
                                           std::pair{3u, 0u}, std::pair{3u, 1u},
                                           std::pair{3u, 2u}));

} // namespace
