#include "troupe/net/shm/descriptor_exchange.hpp"
#include "troupe/net/transport/lane_pair.hpp"
#include "troupe/net/transport/message_stream.hpp"
#include "troupe/tests/net/lanes/lanes.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <thread>

using namespace troupe::net;
using namespace troupe::net::testing;

namespace {

/// Result of one side.
struct opened {
  channel it;
  std::string error;
};

opened open_one(std::unique_ptr<stream> parts, std::unique_ptr<stream> sums,
                channel_options options, bool dialed) {
  options.dialed = dialed;
  try {
    return {open_channel(std::move(parts), std::move(sums), options), {}};
  } catch (const std::runtime_error& e) {
    return {{}, e.what()};
  }
}

struct both {
  opened dialer, acceptor;
};

both open_both(const channel_options& dialer, const channel_options& acceptor) {
  auto parts = connected_streams(), sums = connected_streams();
  both x;
  std::thread other{[&] {
    x.dialer =
      open_one(std::move(parts.first), std::move(sums.first), dialer, true);
  }};
  x.acceptor =
    open_one(std::move(parts.second), std::move(sums.second), acceptor, false);
  other.join();
  return x;
}

void expect_to_carry(lane& from, lane& to) {
  ASSERT_TRUE(from.post(head_of(3), bytes_of(3, 1000)));
  parcel_head head{};
  const auto bytes = take_sometime(to, head);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(*bytes, bytes_of(3, 1000));
}

void expect_channel(const both& x, const std::string& transport) {
  ASSERT_EQ(x.dialer.error, "");
  ASSERT_EQ(x.acceptor.error, "");
  EXPECT_EQ(x.dialer.it.transport, transport);
  EXPECT_EQ(x.acceptor.it.transport, transport);
  expect_to_carry(*x.dialer.it.parts, *x.acceptor.it.parts);
  expect_to_carry(*x.acceptor.it.parts, *x.dialer.it.parts);
  expect_to_carry(*x.dialer.it.sums, *x.acceptor.it.sums);
  expect_to_carry(*x.acceptor.it.sums, *x.dialer.it.sums);
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

channel_options with(lane_policy policy, const std::string& host = {}) {
  return {
    .policy = policy, .patience = patience, .slots = few_slots, .host = host};
}

} // namespace

TEST(LanePair, UsesSharedMemoryOnOneHost) {
  for (const auto mine : {lane_policy::automatic, lane_policy::shm})
    for (const auto theirs : {lane_policy::automatic, lane_policy::shm})
      expect_channel(open_both(with(mine), with(theirs)), "shm");
}

TEST(LanePair, HasTheNumberOfSlotsThatEachSideChooses) {
  auto many = with(lane_policy::shm);
  many.slots = 2 * few_slots;
  const auto x = open_both(many, with(lane_policy::shm));
  expect_channel(x, "shm");
  std::uint32_t posted = 0;
  while (x.dialer.it.sums->post(head_of(0), bytes_of(0, 1)))
    ++posted;
  EXPECT_EQ(posted, 2 * few_slots);
}

TEST(LanePair, PostsZeroCopyFromAnArena) {
  auto one = with(lane_policy::automatic);
  one.my_arena = std::make_shared<const shm_arena>(std::size_t{1} << 20);
  const auto x = open_both(one, with(lane_policy::automatic));
  expect_channel(x, "shm");
  const auto lent = one.my_arena->pages().subspan(4096, 65536);
  ASSERT_TRUE(x.dialer.it.parts->lend(head_of(1), lent));
  EXPECT_FALSE(x.dialer.it.parts->flush());
  ASSERT_NE(x.acceptor.it.parts->front(), nullptr);
  lent[5] = std::byte{9}; // against the rule: it shows that nothing was copied
  EXPECT_EQ(x.acceptor.it.parts->view()[5], std::byte{9});
  x.acceptor.it.parts->pop();
  EXPECT_TRUE(x.dialer.it.parts->flush());
}

TEST(LanePair, UsesStreamsIfOneSideRequiresThem) {
  expect_channel(
    open_both(with(lane_policy::stream), with(lane_policy::automatic)), "tcp");
  auto secured = with(lane_policy::stream);
  secured.over = "tls";
  expect_channel(open_both(secured, secured), "tls");
}

TEST(LanePair, FallsBackToStreamsBetweenHosts) {
  const auto x = open_both(with(lane_policy::automatic, "here"),
                           with(lane_policy::automatic, "there"));
  expect_channel(x, "tcp");
  EXPECT_TRUE(has(x.dialer.it.why_no_shm, "one host"));
  EXPECT_TRUE(has(x.acceptor.it.why_no_shm, "one host"));
}

TEST(LanePair, FailsOnBothSidesIfOneRequiresSharedMemoryBetweenHosts) {
  const auto x = open_both(with(lane_policy::shm, "here"),
                           with(lane_policy::automatic, "there"));
  EXPECT_TRUE(has(x.dialer.error, "one host")) << x.dialer.error;
  EXPECT_TRUE(has(x.acceptor.error, "one host")) << x.acceptor.error;
}

TEST(LanePair, FailsOnBothSidesIfTheirPoliciesContradict) {
  const auto x = open_both(with(lane_policy::shm), with(lane_policy::stream));
  EXPECT_TRUE(has(x.dialer.error, "same transport")) << x.dialer.error;
  EXPECT_TRUE(has(x.acceptor.error, "same transport")) << x.acceptor.error;
}

TEST(LanePair, TimesOutOnASilentPeer) {
  auto parts = connected_streams(), sums = connected_streams();
  const auto x = open_one(std::move(parts.first), std::move(sums.first),
                          {.patience = std::chrono::milliseconds{20}}, true);
  EXPECT_TRUE(has(x.error, "in time")) << x.error;
}

TEST(LanePair, FailsWhenThePeerDisconnects) {
  auto parts = connected_streams(), sums = connected_streams();
  parts.second.reset();
  const auto x = open_one(std::move(parts.first), std::move(sums.first),
                          with(lane_policy::automatic), true);
  EXPECT_TRUE(has(x.error, "closed")) << x.error;
}

TEST(LanePair, RejectsOtherVersionsAndInvalidMessages) {
  const auto answer = [](auto&& say) {
    auto parts = connected_streams(), sums = connected_streams();
    talk peer{*parts.second, talk::clock::now() + patience};
    say(peer, *parts.second);
    return open_one(std::move(parts.first), std::move(sums.first),
                    with(lane_policy::automatic), true)
      .error;
  };
  EXPECT_TRUE(
    has(answer([](talk& peer, stream&) { peer.say(std::uint32_t{7}); }),
        "version 7"));
  EXPECT_TRUE(has(answer([](talk& peer, stream&) {
                    peer.say(std::uint32_t{3});
                    peer.say(std::uint8_t{9}, few_slots, std::string{"x"});
                  }),
                  "unexpected message"));
  EXPECT_TRUE(has(answer([](talk&, stream& s) {
                    const std::vector<std::byte> ones(64, std::byte{0xFF});
                    s.write_some(ones);
                  }),
                  "unexpected message"));
}

TEST(LanePair, ReportsThePeersReasonAsOneShortLine) {
  for (const auto policy : {lane_policy::shm, lane_policy::automatic}) {
    auto parts = connected_streams(), sums = connected_streams();
    talk peer{*parts.second, talk::clock::now() + patience};
    peer.say(std::uint32_t{3});
    peer.say(policy, few_slots, std::string{"here"});
    const std::vector<std::uint8_t> token(32);
    peer.say(std::string{}, token, "no\n" + std::string(3000, 'x'));
    const auto x = open_one(std::move(parts.first), std::move(sums.first),
                            with(policy, "here"), true);
    const auto& why = x.error.empty() ? x.it.why_no_shm : x.error;
    EXPECT_TRUE(has(why, "no?xxx")) << why;
    EXPECT_LT(why.size(), 400u);
  }
}

TEST(LanePair, RejectsSlotsOutOfRange) {
  auto parts = connected_streams(), sums = connected_streams();
  EXPECT_THROW(open_channel(std::move(parts.first), std::move(sums.first),
                            {.slots = most_slots + 1}),
               std::invalid_argument);
}

TEST(LanePair, WorksBetweenTwoProcesses) {
  auto parts = connected_streams(), sums = connected_streams();
  const auto child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    parts.second.reset();
    sums.second.reset();
    auto x = open_one(std::move(parts.first), std::move(sums.first),
                      with(lane_policy::shm), true);
    parcel_head head{};
    const auto bytes =
      x.error.empty() ? take_sometime(*x.it.parts, head) : std::nullopt;
    const bool good = bytes && post_sometime(*x.it.sums, head, *bytes);
    parcel_head farewell{};
    const bool over = good && !take_sometime(*x.it.parts, farewell);
    ::_exit(over ? 0 : 1);
  }
  parts.first.reset();
  sums.first.reset();
  auto x = open_one(std::move(parts.second), std::move(sums.second),
                    with(lane_policy::shm), false);
  ASSERT_EQ(x.error, "");
  ASSERT_TRUE(x.it.parts->post(head_of(5), bytes_of(5, most_parcel_bytes)));
  parcel_head head{};
  const auto bytes = take_sometime(*x.it.sums, head);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(*bytes, bytes_of(5, most_parcel_bytes));
  x.it.parts.reset(); // the child observes its end
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}
