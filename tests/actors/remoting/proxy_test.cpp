#include "troupe/actors/protocol/chief_actor.hpp"
#include "troupe/tests/actors/remoting/proxies.hpp"

#include <caf/exit_reason.hpp>
#include <gtest/gtest.h>

using namespace troupe;
using namespace troupe::testing;
using namespace std::chrono_literals;

namespace {

using echo_actor = caf::typed_actor<
  // Returns the text, repeated as often as the number says.
  caf::replies_to<std::uint32_t, std::string>::with<std::string>,
  // Returns the tensor and the sum of its elements.
  caf::replies_to<tensor>::with<tensor, double>,
  // Returns twice the number, but only when `next` arrives.
  caf::replies_to<atom::run, std::uint64_t>::with<std::uint64_t>,
  caf::reacts_to<atom::next>,
  // A function cannot be sent to another process.
  caf::replies_to<replica_task>::with<bool>,
  // Increments `stops`.
  caf::reacts_to<atom::stop>,
  // Handles cannot be sent to another process.
  caf::reacts_to<job_roles>>;

/// The open requests of the role, and the number of messages that it has
/// received.
struct role_counts {
  std::deque<
    std::pair<std::uint64_t, caf::typed_response_promise<std::uint64_t>>>
    open_requests;
  std::size_t stops = 0, echoes = 0;
};

echo_actor::behavior_type echo(echo_actor::pointer self, role_counts* counts) {
  return {
    [counts](std::uint32_t times,
             const std::string& text) -> caf::result<std::string> {
      ++counts->echoes;
      if (times > 100)
        return caf::make_error(ec::refused, std::string{"that is too often"});
      std::string all;
      while (times-- > 0)
        all += text;
      return all;
    },
    [](const tensor& x) -> caf::result<tensor, double> {
      double sum = 0;
      for (const auto v : x.data<float>())
        sum += v;
      return {x, sum};
    },
    [self, counts](atom::run, std::uint64_t number) {
      auto promise = self->make_response_promise<std::uint64_t>();
      counts->open_requests.emplace_back(number, promise);
      return promise;
    },
    [counts](atom::next) {
      auto [number, promise] = counts->open_requests.front();
      counts->open_requests.pop_front();
      promise.deliver(number * 2);
    },
    [](const replica_task&) { return true; },
    [counts](atom::stop) { ++counts->stops; },
    [](const job_roles&) {},
  };
}

struct proxy_fixture : role_counts, remote_fixture<echo_actor> {
  explicit proxy_fixture(const proxy_options& near = {},
                         const skeleton_options& far = {},
                         const net::loopback_options& between = {})
    : remote_fixture{near, far, between, echo,
                     static_cast<role_counts*>(this)} {}
  ~proxy_fixture() { open_requests.clear(); }

  void answer_first() { caf::anon_send(role, atom::next_v); }
};

std::string error_of(proxy_fixture& fixture, std::uint32_t times = 1) {
  return fixture.ask<std::string>(times, std::string{"x"}).error;
}

/// Uses a credit of the skeleton's end of the channel, and then lets the role
/// respond. The proxy ignores the frame, because it is of another view.
void use_credit(proxy_fixture& fixture, net::priority priority) {
  ASSERT_TRUE(fixture.channel.end_of(net::loopback_channel::right)
                ->post({net::frame_kind::response, priority, 9, 99, {}}));
  fixture.simulator.run_until_idle();
}

} // namespace

TEST(Proxy, SendsArgumentsAndReturnsTheResponse) {
  proxy_fixture fixture;
  EXPECT_EQ(
    fixture.ask<std::string>(std::uint32_t{3}, std::string{"ab"}).values,
    std::tuple{std::string{"ababab"}});
  const auto value = tensor::of<float>(shape{2, 2}, {1, -2, 4, 8});
  const auto back = fixture.ask<tensor, double>(value);
  ASSERT_TRUE(back.values) << back.error;
  EXPECT_TRUE(same_bits(std::get<0>(*back.values), value));
  EXPECT_FALSE(std::get<0>(*back.values).shares_storage_with(value));
  EXPECT_EQ(std::get<1>(*back.values), 11);
}

/// The skeleton answers in place of a role that does not.
TEST(Proxy, FailsARequestThatTheRoleDoesNotAnswer) {
  proxy_fixture fixture{{.request_timeout = 10s}, {.request_timeout = 1s}};
  auto first = fixture.request(atom::run_v, std::uint64_t{1});
  fixture.advance(500ms);
  auto second = fixture.request(atom::run_v, std::uint64_t{2});
  fixture.advance(400ms);
  EXPECT_FALSE(fixture.watcher->has_next_message());
  fixture.advance(200ms);
  const auto late = fixture.read<std::uint64_t>(first);
  EXPECT_EQ(late.error, "stalled(\"the role did not answer in time\")");
  fixture.answer_first(); // has no effect any more
  fixture.answer_first();
  const auto answer = fixture.read<std::uint64_t>(second);
  EXPECT_EQ(answer.values, std::tuple{std::uint64_t{4}}) << answer.error;
}

TEST(Proxy, DeliversEachOnewayMessageOnce) {
  proxy_fixture fixture;
  caf::anon_send(fixture.proxied, atom::stop_v);
  fixture.settle();
  EXPECT_EQ(fixture.stops, 1u);
  fixture.channel.set_fault_hook([](auto, auto&) {
    return net::loopback_channel::frame_fault{.copies = 3};
  });
  caf::anon_send(fixture.proxied, atom::stop_v);
  fixture.settle();
  EXPECT_EQ(fixture.stops, 2u);
}

TEST(Proxy, ReturnsTheRolesErrorWithCodeAndText) {
  proxy_fixture fixture;
  EXPECT_EQ(error_of(fixture, 101), "refused(\"that is too often\")");
  EXPECT_EQ(error_of(fixture), "") << "an error terminates no role";
}

TEST(Proxy, NamesATypeThatCannotLeaveItsProcess) {
  proxy_fixture fixture;
  const std::string wanted =
    "invalid(\"a troupe::replica_task cannot leave its process\")";
  EXPECT_EQ(fixture.ask<bool>(replica_task{}).error, wanted);
  EXPECT_EQ(fixture.ask<>(job_roles{}).error,
            "invalid(\"a troupe::job_roles cannot leave its process\")");
}

TEST(Proxy, RejectsMessagesAboveTheLimitOfTheChannel) {
  proxy_fixture fixture{{}, {}, {.limits = {.control = 100, .bulk = 1000}}};
  EXPECT_EQ(error_of(fixture), "");
  const auto error =
    fixture.ask<std::string>(std::uint32_t{1}, std::string(100, 'x')).error;
  EXPECT_NE(error.find("limit of the channel is 100"), std::string::npos)
    << error;
  const auto back =
    fixture.ask<std::string>(std::uint32_t{99}, std::string{"xy"}).error;
  EXPECT_NE(back.find("a response of 207 bytes"), std::string::npos) << back;
}

TEST(Proxy, FailsARequestAtItsDeadlineAndIgnoresTheLateResponse) {
  proxy_fixture fixture{{.request_timeout = 1s}, {.request_timeout = 10s}};
  auto asked = fixture.request(atom::run_v, std::uint64_t{21});
  fixture.advance(990ms);
  EXPECT_TRUE(fixture.read<std::uint64_t>(asked).pending());
  fixture.advance(20ms);
  EXPECT_EQ(fixture.read<std::uint64_t>(asked).error.substr(0, 7), "stalled");
  fixture.answer_first();
  fixture.settle();
  EXPECT_EQ(error_of(fixture), "");
}

TEST(Proxy, FailsARequestIfItsFrameOrResponseIsLost) {
  for (const auto lossy :
       {net::loopback_channel::left, net::loopback_channel::right}) {
    proxy_fixture fixture{{.request_timeout = 1s}};
    fixture.channel.set_fault_hook([=](auto from, auto&) {
      return net::loopback_channel::frame_fault{.copies =
                                                  from == lossy ? 0u : 1u};
    });
    auto asked = fixture.request(std::uint32_t{1}, std::string{"x"});
    fixture.advance(1100ms);
    EXPECT_EQ(fixture.read<std::string>(asked).error,
              "stalled(\"no response within 1000 ms\")");
    EXPECT_EQ(fixture.echoes, lossy == net::loopback_channel::left ? 0u : 1u);
  }
}

TEST(Proxy, IgnoresDuplicateResponses) {
  proxy_fixture fixture;
  fixture.channel.set_fault_hook([](auto, auto&) {
    return net::loopback_channel::frame_fault{.copies = 2};
  });
  EXPECT_EQ(error_of(fixture), "");
  EXPECT_EQ(error_of(fixture), "");
  EXPECT_EQ(fixture.echoes, 2u) << "no request was handled twice";
  EXPECT_FALSE(fixture.proxy_end());
}

TEST(Proxy, MatchesResponsesInAnyOrder) {
  proxy_fixture fixture;
  auto first = fixture.request(atom::run_v, std::uint64_t{1});
  fixture.settle();
  auto second = fixture.request(atom::run_v, std::uint64_t{2});
  fixture.settle();
  fixture.channel.set_fault_hook([n = 0](auto, auto&) mutable {
    return net::loopback_channel::frame_fault{.overtaken_by =
                                                n++ == 0 ? 1u : 0u};
  });
  fixture.answer_first();
  fixture.answer_first();
  fixture.settle();
  std::vector<std::uint64_t> responses;
  const auto failed = [](const caf::error&) { ADD_FAILURE(); };
  second.receive([&](std::uint64_t x) { responses.push_back(x); }, failed);
  first.receive([&](std::uint64_t x) { responses.push_back(x); }, failed);
  EXPECT_EQ(responses, (std::vector<std::uint64_t>{4, 2}));
}

TEST(Proxy, IsBusyBeyondTheWindowsOfProxySkeletonAndChannel) {
  proxy_fixture near{{.window = 1}};
  auto open = near.request(atom::run_v, std::uint64_t{1});
  near.settle();
  EXPECT_EQ(error_of(near), "busy(\"1 requests are open already\")");
  near.answer_first();
  EXPECT_TRUE(near.read<std::uint64_t>(open).values);
  EXPECT_EQ(error_of(near), "");

  proxy_fixture far{{}, {.window = 1}};
  auto open_request = far.request(atom::run_v, std::uint64_t{1});
  far.settle();
  EXPECT_EQ(error_of(far), "busy(\"the role has 1 open requests already\")");
  far.answer_first();
  EXPECT_TRUE(far.read<std::uint64_t>(open_request).values);

  proxy_fixture between{{}, {}, {.control = 2}};
  for (int i = 0; i < 2; ++i)
    caf::anon_send(between.proxied, atom::stop_v);
  auto third = between.request(atom::stop_v);
  between.simulator.run_until_idle(); // the channel delivers no frame here
  EXPECT_EQ(between.read<>(third).error,
            "busy(\"the channel accepts no more frames\")");
  EXPECT_EQ(between.stops, 2u);
  EXPECT_EQ(error_of(between), "") << "the channel accepts frames again";
}

TEST(Proxy, SaysWhyTheChannelEndedToARequestThatFindsItEnded) {
  proxy_fixture fixture;
  auto late = fixture.request(std::uint32_t{1}, std::string{"x"});
  // The message with the end of the channel follows the request.
  fixture.channel.close_with(net::close_reason::timed_out, "no heartbeat");
  fixture.settle();
  EXPECT_EQ(fixture.read<std::string>(late).error,
            "unreachable(\"no heartbeat\")");
}

TEST(Proxy, FailsARequestAsBusyIfItsResponseIsRefused) {
  proxy_fixture fixture{{}, {}, {.bulk = 1}};
  auto asked = fixture.request(tensor::full({2}, 1));
  fixture.simulator.run_until_idle();
  fixture.channel.deliver();
  use_credit(fixture, net::priority::bulk);
  EXPECT_EQ((fixture.read<tensor, double>(asked).error),
            "busy(\"the response was lost: the channel accepts no more "
            "frames\")");
}

TEST(Proxy, HearsOfTheEndOfAChannelThatRefusesAnyResponse) {
  std::vector<std::string> lines;
  const auto log = [&](net::severity, const std::string& line) {
    lines.push_back(line);
  };
  proxy_fixture fixture{{}, {.log = log}, {.control = 1}};
  auto asked = fixture.request(std::uint32_t{1}, std::string{"x"});
  fixture.simulator.run_until_idle();
  fixture.channel.deliver();
  use_credit(fixture, net::priority::control);
  const auto error = fixture.read<std::string>(asked).error;
  EXPECT_NE(error.find("the response to a request was lost"), std::string::npos)
    << error;
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("the response to a request was lost"),
            std::string::npos)
    << lines[0];
}

TEST(Proxy, WarnsOfLostOnewayMessagesAndCountsThem) {
  std::vector<std::string> warnings;
  proxy_fixture fixture{{.target = "role \"echo\" of node 7",
                         .log =
                           [&](net::severity level, const std::string& text) {
                             EXPECT_EQ(level, net::severity::warning);
                             warnings.push_back(text);
                           }},
                        {},
                        {.control = 2}};
  const auto lose = [&](int count) {
    for (int i = 0; i < 2 + count; ++i) // the channel accepts two
      caf::anon_send(fixture.proxied, atom::stop_v);
    fixture.simulator.run_until_idle(); // the channel delivers no frame here
  };
  const std::string text = "the message 'stop' to role \"echo\" of node 7 was "
                           "not sent: the channel accepts no more frames";
  lose(5);
  EXPECT_EQ(warnings, std::vector{text}) << "one warning for five losses";
  fixture.advance(10s);
  lose(1);
  EXPECT_EQ(warnings.size(), 2u);
  EXPECT_EQ(warnings.back(),
            text + "; 5 messages to it were lost since the last warning");
  EXPECT_EQ(fixture.stops, 2u) << "the channel delivers later";
  EXPECT_FALSE(fixture.proxy_end()); // the channel delivers here
  EXPECT_EQ(fixture.stops, 4u);
  EXPECT_EQ(warnings.size(), 2u) << "a message that is sent is not lost";
}

TEST(Proxy, KeepsOnewayMessagesUntilTheChannelAcceptsThem) {
  proxy_fixture fixture{{.backlog = 10}, {}, {.control = 2}};
  for (int i = 0; i < 9; ++i)
    caf::anon_send(fixture.proxied, atom::stop_v);
  fixture.simulator.run_until_idle(); // the channel delivers no frame here
  EXPECT_EQ(error_of(fixture), "busy(\"the channel accepts no more frames\")")
    << "a request does not overtake them";
  fixture.advance(100ms);
  EXPECT_EQ(fixture.stops, 9u);
  EXPECT_EQ(error_of(fixture), "");
  EXPECT_FALSE(fixture.proxy_end());
}

TEST(Proxy, TerminatesIfAMessageThatMustArriveCannotBeSent) {
  proxy_fixture full{
    {.backlog = 3, .target = "replica 3 of worker 1"}, {}, {.control = 2}};
  for (int i = 0; i < 6; ++i)
    caf::anon_send(full.proxied, atom::stop_v);
  full.simulator.run_until_idle();
  const auto end = full.proxy_end();
  ASSERT_TRUE(end);
  EXPECT_EQ(*end, ec::busy);
  EXPECT_EQ(full.simulator.sys.render(*end),
            "busy(\"the message 'stop' to replica 3 of worker 1 was not sent: "
            "the channel accepts no more frames, and 3 messages are waiting "
            "already\")");

  proxy_fixture narrow{{.backlog = 3}, {}, {.limits = {.control = 8}}};
  caf::anon_send(narrow.proxied, atom::stop_v);
  EXPECT_EQ(narrow.proxy_end(), ec::invalid);

  proxy_fixture local{{.backlog = 3}};
  caf::anon_send(local.proxied, job_roles{});
  EXPECT_EQ(local.proxy_end(), ec::invalid);
}

TEST(Proxy, TerminatesWithProtocolIfBytesAreDamaged) {
  proxy_fixture fixture;
  fixture.channel.set_fault_hook([](auto, auto& bytes) {
    bytes[45] ^= std::byte{1};
    return net::loopback_channel::frame_fault{};
  });
  const auto error = error_of(fixture);
  EXPECT_EQ(error.substr(0, 9), "protocol(") << error;
  EXPECT_EQ(fixture.proxy_end(), ec::protocol);
  EXPECT_EQ(fixture.echoes, 0u);
}

TEST(Proxy, FailsOpenRequestsWithTheReasonOfTheChannelsEnd) {
  const std::pair<net::close_reason, ec> cases[] = {
    {net::close_reason::closed, ec::peer_lost},
    {net::close_reason::timed_out, ec::unreachable},
    {net::close_reason::protocol_error, ec::protocol}};
  for (const auto& [cause, code] : cases) {
    proxy_fixture fixture;
    auto asked = fixture.request(atom::run_v, std::uint64_t{1});
    fixture.settle();
    fixture.channel.close_with(cause, "because");
    EXPECT_EQ(fixture.read<std::uint64_t>(asked).error,
              to_string(code) + "(\"because\")");
    EXPECT_EQ(fixture.proxy_end(), code);
  }
}

TEST(Proxy, FailsOpenRequestsIfTheRoleOrItsSkeletonDies) {
  for (const bool role : {true, false}) {
    proxy_fixture fixture;
    auto asked = fixture.request(atom::run_v, std::uint64_t{1});
    fixture.settle();
    if (role)
      caf::anon_send_exit(fixture.role, caf::exit_reason::kill);
    else
      caf::anon_send_exit(fixture.role_skeleton, caf::exit_reason::kill);
    const auto error = fixture.read<std::uint64_t>(asked).error;
    EXPECT_EQ(error.substr(0, 10), "peer_lost(") << error;
    EXPECT_EQ(fixture.proxy_end(), ec::peer_lost);
  }
}

TEST(Proxy, TerminatesNormallyIfItsRoleIsStopped) {
  proxy_fixture fixture;
  caf::anon_send_exit(fixture.role, caf::exit_reason::user_shutdown);
  EXPECT_EQ(fixture.proxy_end(), caf::exit_reason::user_shutdown);
}

TEST(Proxy, TerminatesItsSkeletonToo) {
  proxy_fixture fixture;
  caf::anon_send_exit(fixture.proxied, caf::exit_reason::kill);
  EXPECT_EQ(fixture.proxy_end(), caf::exit_reason::kill);
  fixture.watcher->monitor(fixture.role_skeleton);
  EXPECT_EQ(fixture.proxy_end(), ec::peer_lost) << "that is the skeleton's end";
}

TEST(Proxy, IsSupersededInAnOlderView) {
  proxy_fixture fixture{{.view_id = 4}, {.view_id = 5}};
  auto asked = fixture.request(std::uint32_t{1}, std::string{"x"});
  EXPECT_EQ(fixture.read<std::string>(asked).error,
            "superseded(\"view 4, but the current view is 5\")");
  caf::anon_send(fixture.proxied, atom::stop_v);
  fixture.settle();
  EXPECT_EQ(fixture.stops + fixture.echoes, 0u);
}
