#include "troupe/tests/actors/remoting/proxies.hpp"

#include <caf/exit_reason.hpp>
#include <gtest/gtest.h>

using namespace troupe;
using namespace troupe::testing;
using namespace std::chrono_literals;

namespace {

using desk_actor = caf::typed_actor<
  // Returns the text repeated that many times.
  caf::replies_to<std::uint32_t, std::string>::with<std::string>,
  // Returns the tensor and the sum of its elements.
  caf::replies_to<tensor>::with<tensor, double>,
  // Returns twice the number when `next` arrives.
  caf::replies_to<atom::run, std::uint64_t>::with<std::uint64_t>,
  caf::reacts_to<atom::next>,
  // A function cannot be sent to another process.
  caf::replies_to<visit_ref>::with<bool>,
  // Is counted.
  caf::reacts_to<atom::stop>,
  // Handles cannot be sent to another process.
  caf::reacts_to<cast_ref>>;

/// Counts of the role's messages, and its open requests.
struct ledger {
  std::deque<
    std::pair<std::uint64_t, caf::typed_response_promise<std::uint64_t>>>
    owed;
  std::size_t stops = 0, echoes = 0;
};

desk_actor::behavior_type desk(desk_actor::pointer self, ledger* by) {
  return {
    [by](std::uint32_t times,
         const std::string& text) -> caf::result<std::string> {
      ++by->echoes;
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
    [self, by](atom::run, std::uint64_t number) {
      auto promise = self->make_response_promise<std::uint64_t>();
      by->owed.emplace_back(number, promise);
      return promise;
    },
    [by](atom::next) {
      auto [number, promise] = by->owed.front();
      by->owed.pop_front();
      promise.deliver(number * 2);
    },
    [](const visit_ref&) { return true; },
    [by](atom::stop) { ++by->stops; },
    [](const cast_ref&) {},
  };
}

struct stage : ledger, remote_stage<desk_actor> {
  explicit stage(const proxy_options& near = {},
                 const gateway_options& far = {},
                 const net::loopback_options& between = {})
    : remote_stage{near, far, between, desk, static_cast<ledger*>(this)} {}
  ~stage() { owed.clear(); }

  void answer_first() { caf::anon_send(real, atom::next_v); }
};

std::string error_of(stage& on, std::uint32_t times = 1) {
  return on.ask<std::string>(times, std::string{"x"}).error;
}

} // namespace

TEST(Proxy, SendsArgumentsAndReturnsTheResponse) {
  stage on;
  EXPECT_EQ(on.ask<std::string>(std::uint32_t{3}, std::string{"ab"}).values,
            std::tuple{std::string{"ababab"}});
  const auto x = tensor::of<float>(shape{2, 2}, {1, -2, 4, 8});
  const auto back = on.ask<tensor, double>(x);
  ASSERT_TRUE(back.values) << back.error;
  EXPECT_TRUE(same_bits(std::get<0>(*back.values), x));
  EXPECT_FALSE(std::get<0>(*back.values).shares_storage_with(x));
  EXPECT_EQ(std::get<1>(*back.values), 11);
}

TEST(Proxy, DeliversEachOnewayMessageOnce) {
  stage on;
  caf::anon_send(on.proxied, atom::stop_v);
  on.settle();
  EXPECT_EQ(on.stops, 1u);
  on.wire.meddle([](auto, auto&) { return net::loopback::fate{.copies = 3}; });
  caf::anon_send(on.proxied, atom::stop_v);
  on.settle();
  EXPECT_EQ(on.stops, 2u);
}

TEST(Proxy, ReturnsTheRolesErrorWithCodeAndText) {
  stage on;
  EXPECT_EQ(error_of(on, 101), "refused(\"that is too often\")");
  EXPECT_EQ(error_of(on), "") << "an error terminates no role";
}

TEST(Proxy, NamesATypeThatCannotLeaveItsProcess) {
  stage on;
  const std::string wanted =
    "invalid(\"a troupe::visit_ref cannot leave its process\")";
  EXPECT_EQ(on.ask<bool>(visit_ref{}).error, wanted);
  EXPECT_EQ(on.ask<>(cast_ref{}).error,
            "invalid(\"a troupe::cast_ref cannot leave its process\")");
}

TEST(Proxy, RejectsMessagesAboveTheLimitOfTheChannel) {
  stage on{{}, {}, {.limits = {.control = 100, .bulk = 1000}}};
  EXPECT_EQ(error_of(on), "");
  const auto error =
    on.ask<std::string>(std::uint32_t{1}, std::string(100, 'x')).error;
  EXPECT_NE(error.find("limit of the channel is 100"), std::string::npos)
    << error;
  const auto back =
    on.ask<std::string>(std::uint32_t{99}, std::string{"xy"}).error;
  EXPECT_NE(back.find("a response of 207 bytes"), std::string::npos) << back;
}

TEST(Proxy, FailsARequestAtItsDeadlineAndIgnoresTheLateResponse) {
  stage on{{.patience = 1s}, {.patience = 10s}};
  auto asked = on.request(atom::run_v, std::uint64_t{21});
  on.advance(990ms);
  EXPECT_TRUE(on.read<std::uint64_t>(asked).pending());
  on.advance(20ms);
  EXPECT_EQ(on.read<std::uint64_t>(asked).error.substr(0, 7), "stalled");
  on.answer_first();
  on.settle();
  EXPECT_EQ(error_of(on), "");
}

TEST(Proxy, FailsARequestIfItsFrameOrResponseIsLost) {
  for (const auto lossy : {net::loopback::left, net::loopback::right}) {
    stage on{{.patience = 1s}};
    on.wire.meddle([=](auto from, auto&) {
      return net::loopback::fate{.copies = from == lossy ? 0u : 1u};
    });
    auto asked = on.request(std::uint32_t{1}, std::string{"x"});
    on.advance(1100ms);
    EXPECT_EQ(on.read<std::string>(asked).error,
              "stalled(\"no response within 1000 ms\")");
    EXPECT_EQ(on.echoes, lossy == net::loopback::left ? 0u : 1u);
  }
}

TEST(Proxy, IgnoresDuplicateResponses) {
  stage on;
  on.wire.meddle([](auto, auto&) { return net::loopback::fate{.copies = 2}; });
  EXPECT_EQ(error_of(on), "");
  EXPECT_EQ(error_of(on), "");
  EXPECT_EQ(on.echoes, 2u) << "no request was handled twice";
  EXPECT_FALSE(on.proxy_end());
}

TEST(Proxy, MatchesResponsesInAnyOrder) {
  stage on;
  auto first = on.request(atom::run_v, std::uint64_t{1});
  on.settle();
  auto second = on.request(atom::run_v, std::uint64_t{2});
  on.settle();
  on.wire.meddle([n = 0](auto, auto&) mutable {
    return net::loopback::fate{.behind = n++ == 0 ? 1u : 0u};
  });
  on.answer_first();
  on.answer_first();
  on.settle();
  std::vector<std::uint64_t> answers;
  const auto failed = [](const caf::error&) { ADD_FAILURE(); };
  second.receive([&](std::uint64_t x) { answers.push_back(x); }, failed);
  first.receive([&](std::uint64_t x) { answers.push_back(x); }, failed);
  EXPECT_EQ(answers, (std::vector<std::uint64_t>{4, 2}));
}

TEST(Proxy, IsBusyBeyondTheWindowsOfProxySkeletonAndChannel) {
  stage near{{.window = 1}};
  auto open = near.request(atom::run_v, std::uint64_t{1});
  near.settle();
  EXPECT_EQ(error_of(near), "busy(\"1 requests are open already\")");
  near.answer_first();
  EXPECT_TRUE(near.read<std::uint64_t>(open).values);
  EXPECT_EQ(error_of(near), "");

  stage far{{}, {.window = 1}};
  auto owed = far.request(atom::run_v, std::uint64_t{1});
  far.settle();
  EXPECT_EQ(error_of(far), "busy(\"the role has 1 open requests already\")");
  far.answer_first();
  EXPECT_TRUE(far.read<std::uint64_t>(owed).values);

  stage between{{}, {}, {.control = 2}};
  for (int i = 0; i < 2; ++i)
    caf::anon_send(between.proxied, atom::stop_v);
  auto third = between.request(atom::stop_v);
  between.on.settle(); // nothing is delivered meanwhile
  EXPECT_EQ(between.read<>(third).error,
            "busy(\"the channel accepts no more frames\")");
  EXPECT_EQ(between.stops, 2u);
  EXPECT_EQ(error_of(between), "") << "the channel accepts frames again";
}

TEST(Proxy, KeepsOnewayMessagesUntilTheChannelAcceptsThem) {
  stage on{{.backlog = 10}, {}, {.control = 2}};
  for (int i = 0; i < 9; ++i)
    caf::anon_send(on.proxied, atom::stop_v);
  on.on.settle(); // nothing is delivered meanwhile
  EXPECT_EQ(error_of(on), "busy(\"the channel accepts no more frames\")")
    << "a request does not overtake them";
  on.advance(100ms);
  EXPECT_EQ(on.stops, 9u);
  EXPECT_EQ(error_of(on), "");
  EXPECT_FALSE(on.proxy_end());
}

TEST(Proxy, TerminatesIfAMessageThatMustArriveCannotBeSent) {
  stage full{{.backlog = 3}, {}, {.control = 2}};
  for (int i = 0; i < 6; ++i)
    caf::anon_send(full.proxied, atom::stop_v);
  full.on.settle();
  EXPECT_EQ(full.proxy_end(), ec::busy);

  stage narrow{{.backlog = 3}, {}, {.limits = {.control = 8}}};
  caf::anon_send(narrow.proxied, atom::stop_v);
  EXPECT_EQ(narrow.proxy_end(), ec::invalid);

  stage local{{.backlog = 3}};
  caf::anon_send(local.proxied, cast_ref{});
  EXPECT_EQ(local.proxy_end(), ec::invalid);
}

TEST(Proxy, TerminatesWithProtocolIfBytesAreDamaged) {
  stage on;
  on.wire.meddle([](auto, auto& bytes) {
    bytes[45] ^= std::byte{1};
    return net::loopback::fate{};
  });
  const auto error = error_of(on);
  EXPECT_EQ(error.substr(0, 9), "protocol(") << error;
  EXPECT_EQ(on.proxy_end(), ec::protocol);
  EXPECT_EQ(on.echoes, 0u);
}

TEST(Proxy, FailsOpenRequestsWithTheReasonOfTheChannelsEnd) {
  const std::pair<net::ending, ec> cases[] = {
    {net::ending::dead, ec::peer_lost},
    {net::ending::silent, ec::unreachable},
    {net::ending::broken, ec::protocol}};
  for (const auto& [how, code] : cases) {
    stage on;
    auto asked = on.request(atom::run_v, std::uint64_t{1});
    on.settle();
    on.wire.end(how, "because");
    EXPECT_EQ(on.read<std::uint64_t>(asked).error,
              to_string(code) + "(\"because\")");
    EXPECT_EQ(on.proxy_end(), code);
  }
}

TEST(Proxy, FailsOpenRequestsIfTheRoleOrItsSkeletonDies) {
  for (const bool role : {true, false}) {
    stage on;
    auto asked = on.request(atom::run_v, std::uint64_t{1});
    on.settle();
    if (role)
      caf::anon_send_exit(on.real, caf::exit_reason::kill);
    else
      caf::anon_send_exit(on.gate, caf::exit_reason::kill);
    const auto error = on.read<std::uint64_t>(asked).error;
    EXPECT_EQ(error.substr(0, 10), "peer_lost(") << error;
    EXPECT_EQ(on.proxy_end(), ec::peer_lost);
  }
}

TEST(Proxy, TerminatesNormallyIfItsRoleIsStopped) {
  stage on;
  caf::anon_send_exit(on.real, caf::exit_reason::user_shutdown);
  EXPECT_EQ(on.proxy_end(), caf::exit_reason::user_shutdown);
}

TEST(Proxy, TerminatesItsSkeletonToo) {
  stage on;
  caf::anon_send_exit(on.proxied, caf::exit_reason::kill);
  EXPECT_EQ(on.proxy_end(), caf::exit_reason::kill);
  on.watcher->monitor(on.gate);
  EXPECT_EQ(on.proxy_end(), ec::peer_lost) << "that is the skeleton's end";
}

TEST(Proxy, IsSupersededInAnOlderView) {
  stage on{{.epoch = 4}, {.epoch = 5}};
  auto asked = on.request(std::uint32_t{1}, std::string{"x"});
  EXPECT_EQ(on.read<std::string>(asked).error,
            "superseded(\"view 4, but the current view is 5\")");
  caf::anon_send(on.proxied, atom::stop_v);
  on.settle();
  EXPECT_EQ(on.stops + on.echoes, 0u);
}
