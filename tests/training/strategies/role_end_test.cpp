#include "losses.hpp"

#include <gtest/gtest.h>

#include <atomic>

// Actors of the chief and of a local agent that end in a job of several
// processes.

namespace {

using namespace troupe;
using namespace troupe::test;

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

} // namespace
