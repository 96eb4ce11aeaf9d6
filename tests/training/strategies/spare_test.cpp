#include "losses.hpp"
#include "troupe/actors/membership/peers/join_hello.hpp"
#include "troupe/net/session/endpoint.hpp"
#include "troupe/tests/support/timeouts.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <future>

// A spare for any task whose task another process asks for.

namespace {

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

using troupe::test::patience;

net::endpoint::dial_result dial(net::endpoint& from,
                                const membership::member& target,
                                const std::string& purpose,
                                const membership::join_request& request) {
  std::promise<net::endpoint::dial_result> done;
  from.dial(
    {target.host, target.port},
    make_join_hello("job", "worker 2", purpose, request), patience,
    [&](net::endpoint::dial_result&& x) { done.set_value(std::move(x)); });
  return done.get_future().get();
}

/// A process that asks one member for task 2 and does nothing more.
class other_candidate {
public:
  explicit other_candidate(const membership::member& target) {
    membership::join_request request{2, incarnation, "127.0.0.1", 1, 1, {}};
    // The member rejects another configuration, and shows its own.
    const auto refused = dial(endpoint_, target, "vacancies", request);
    EXPECT_TRUE(refused.rejected);
    membership::join_request of_member;
    EXPECT_FALSE(read_join_hello(refused.peer, of_member));
    request.config = of_member.config;
    auto accepted = dial(endpoint_, target, "join", request);
    if (accepted.connection)
      connection_ = std::get<std::shared_ptr<net::connection>>(
        std::move(*accepted.connection));
    else
      ADD_FAILURE() << accepted.reason;
  }

  void leave() {
    if (connection_)
      connection_->close("the test lets it leave");
  }

  static constexpr std::uint64_t incarnation = 77;

private:
  net::endpoint endpoint_{{}};
  std::shared_ptr<net::connection> connection_;
};

TEST(SpareForAnyTask, GivesWayWhileAnotherProcessAsksForTheTask) {
  std::array<std::atomic<peer_table*>, 2> tables{};
  std::array<std::string, workers> weights;
  std::once_flag once;
  std::promise<void> may_join;
  const auto wait_for_join = [&](const strategy& on) {
    auto& peers = peers_of(on);
    std::unique_lock hold{peers.lock};
    const auto is_complete = [&] {
      return peers.view.members.size() == workers;
    };
    if (is_complete())
      return;
    std::call_once(once, [&] { may_join.set_value(); });
    EXPECT_TRUE(
      peers.wait(hold, peer_table::clock::now() + patience,
                 [&] { return peers.stop.requested || is_complete(); }))
      << "no process asked to join";
  };
  const auto run = [&](const strategy& on, std::uint32_t w) {
    if (w < 2)
      tables[w] = &peers_of(on);
    const auto scope = on.scope();
    auto it = small_model();
    fit_options how{.epochs = 2};
    how.callbacks.push_back({.on_step = [&](const step_record& x) {
      if (x.repeated)
        return;
      if (w == 2 && x.step == 3)
        cut_off(on);
      if (w < 2 && x.step >= 9)
        wait_for_join(on);
    }});
    it.fit(uneven_batches(), how);
    weights[w] = it.weights_sha256();
  };
  std::atomic<int> attempts = 0, times_logged = 0;
  const auto run_spare = [&] {
    ASSERT_EQ(may_join.get_future().wait_for(patience),
              std::future_status::ready);
    auto& asked = *tables[1].load();
    const auto members = asked.get([&] { return asked.view.members; });
    ASSERT_EQ(members.size(), 2u);
    other_candidate other{members[1]};
    {
      std::unique_lock hold{asked.lock};
      ASSERT_TRUE(asked.wait(hold, peer_table::clock::now() + patience, [&] {
        return asked.entries[2].incarnation == other.incarnation;
      }));
    }
    // The spare knows only member 0, which has no connection to the other one.
    const net::cluster_spec cluster{
      std::map<std::string, net::cluster_spec::list>{
        {"worker",
         {"127.0.0.1:" + std::to_string(members[0].port), "127.0.0.1:1",
          "127.0.0.1:2"}}}};
    multi_worker_options options;
    options.join_running_job = true;
    options.spare_timeout = patience;
    options.any_task = true;
    options.log = [&](net::severity, const std::string& line) {
      times_logged += line.find("has taken its task") != line.npos;
      // Not because the attempt has timed out.
      if (line.find("this spare goes on waiting") != line.npos
          && line.find("could not connect to all") == line.npos
          && ++attempts == 2)
        other.leave();
    };
    runtime actors;
    const multi_worker_mirrored_strategy mine{
      actors, net::simple_resolver{cluster, {}}, options};
    EXPECT_EQ(mine.worker(), 2u);
    run(mine, 2);
  };
  const auto thrown = run_on_cluster(workers, {}, run, [&](std::uint32_t w) {
    if (w == 2)
      run_spare();
  });
  EXPECT_EQ(exception_text(thrown[0]), "");
  EXPECT_EQ(exception_text(thrown[1]), "");
  EXPECT_NE(exception_text(thrown[2]), "");
  EXPECT_EQ(attempts, 2);
  EXPECT_EQ(times_logged, 1);
  const auto expected = weights_after_fit(turns(workers));
  for (const auto& one : weights)
    EXPECT_EQ(one, expected);
}

} // namespace
