#include "troupe/actors/membership/membership_actor.hpp"
#include "troupe/actors/runtime/runtime.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>
#include <gtest/gtest.h>

#include <future>

namespace {

using namespace troupe;
using namespace std::chrono_literals;

constexpr auto patience = 60s;

/// A connection that only tells that it was closed.
class fake_connection final : public net::connection {
public:
  std::shared_ptr<net::channel> open(std::uint32_t) override { return nullptr; }
  const net::hello& peer() const override { return peer_; }
  std::chrono::milliseconds silence() const override { return 0ms; }
  void on_closed(
    std::function<void(net::close_reason, const std::string&)>) override {}
  void close(const std::string& reason) override { closed.set_value(reason); }

  std::promise<std::string> closed;

private:
  net::hello peer_;
};

TEST(MembershipActor, ThatHasEndedClosesTheConnectionOfALateDial) {
  runtime actors;
  std::promise<membership_options::dial_callback> dialed;
  membership_options options;
  options.processes.names = {"worker 0", "worker 1"};
  options.self.task = 1;
  options.joins = true;
  options.peers = std::make_shared<peer_table>(2);
  options.dial_to_join = [&](std::uint32_t, const membership::member*,
                             std::chrono::milliseconds,
                             membership_options::dial_callback on_done) {
    dialed.set_value(std::move(on_done));
  };
  auto member = spawn_membership(actors.system(), options);
  auto on_done = dialed.get_future().get();
  std::promise<void> ended;
  const auto actor = caf::actor_cast<caf::actor>(std::exchange(member, {}));
  actor->attach_functor([&] { ended.set_value(); });
  caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  ASSERT_EQ(ended.get_future().wait_for(patience), std::future_status::ready);
  const auto connection = std::make_shared<fake_connection>();
  net::endpoint::dial_result result;
  result.connection = std::shared_ptr<net::connection>{connection};
  on_done(std::move(result));
  EXPECT_EQ(connection->closed.get_future().wait_for(patience),
            std::future_status::ready);
}

} // namespace
