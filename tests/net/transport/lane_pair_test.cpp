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

/// Result of `open_lanes` in one process: the lanes, or the error.
struct opened {
  lane_pair lanes;
  std::string error;
};

opened open_one(std::unique_ptr<stream> contributions,
                std::unique_ptr<stream> results, lane_options options,
                bool dialed) {
  options.is_dialer = dialed;
  try {
    return {open_lanes(std::move(contributions), std::move(results), options),
            {}};
  } catch (const std::runtime_error& e) {
    return {{}, e.what()};
  }
}

struct opened_pair {
  opened dialer, acceptor;
};

opened_pair open_both(const lane_options& dialer,
                      const lane_options& acceptor) {
  auto contributions = connected_streams(), results = connected_streams();
  opened_pair pair;
  std::thread dialer_thread{[&] {
    pair.dialer = open_one(std::move(contributions.first),
                           std::move(results.first), dialer, true);
  }};
  pair.acceptor = open_one(std::move(contributions.second),
                           std::move(results.second), acceptor, false);
  dialer_thread.join();
  return pair;
}

void expect_carried(lane& sender, lane& receiver) {
  ASSERT_TRUE(sender.post(numbered_header(3), bytes_of(3, 1000)));
  packet_header header{};
  const auto bytes = take_eventually(receiver, header);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(*bytes, bytes_of(3, 1000));
}

void expect_lane_pair(const opened_pair& pair, const std::string& transport) {
  ASSERT_EQ(pair.dialer.error, "");
  ASSERT_EQ(pair.acceptor.error, "");
  EXPECT_EQ(pair.dialer.lanes.transport, transport);
  EXPECT_EQ(pair.acceptor.lanes.transport, transport);
  expect_carried(*pair.dialer.lanes.contributions,
                 *pair.acceptor.lanes.contributions);
  expect_carried(*pair.acceptor.lanes.contributions,
                 *pair.dialer.lanes.contributions);
  expect_carried(*pair.dialer.lanes.results, *pair.acceptor.lanes.results);
  expect_carried(*pair.acceptor.lanes.results, *pair.dialer.lanes.results);
}

bool mentions(const std::string& text, const std::string& expected) {
  return text.find(expected) != std::string::npos;
}

lane_options options_with(lane_policy policy, const std::string& host = {}) {
  return {.policy = policy,
          .handshake_timeout = test_timeout,
          .slots = few_slots,
          .host = host};
}

} // namespace

TEST(LanePair, UsesSharedMemoryOnOneHost) {
  for (const auto mine : {lane_policy::automatic, lane_policy::shm})
    for (const auto theirs : {lane_policy::automatic, lane_policy::shm})
      expect_lane_pair(open_both(options_with(mine), options_with(theirs)),
                       "shm");
}

TEST(LanePair, HasTheNumberOfSlotsThatEachSideChooses) {
  auto many = options_with(lane_policy::shm);
  many.slots = 2 * few_slots;
  const auto pair = open_both(many, options_with(lane_policy::shm));
  expect_lane_pair(pair, "shm");
  std::uint32_t posted = 0;
  while (pair.dialer.lanes.results->post(numbered_header(0), bytes_of(0, 1)))
    ++posted;
  EXPECT_EQ(posted, 2 * few_slots);
}

TEST(LanePair, PostsZeroCopyFromAnArena) {
  auto one = options_with(lane_policy::automatic);
  one.arena = std::make_shared<const shm_arena>(std::size_t{1} << 20);
  const auto pair = open_both(one, options_with(lane_policy::automatic));
  expect_lane_pair(pair, "shm");
  const auto payload = one.arena->pages().subspan(4096, 65536);
  ASSERT_TRUE(pair.dialer.lanes.contributions->post_zero_copy(
    numbered_header(1), payload));
  EXPECT_FALSE(pair.dialer.lanes.contributions->flush());
  ASSERT_NE(pair.acceptor.lanes.contributions->front(), nullptr);
  // The dialer changes a byte before the acceptor has released the packet. The
  // acceptor sees the change, so the payload was not copied.
  payload[5] = std::byte{9};
  EXPECT_EQ(pair.acceptor.lanes.contributions->view()[5], std::byte{9});
  pair.acceptor.lanes.contributions->pop();
  EXPECT_TRUE(pair.dialer.lanes.contributions->flush());
}

TEST(LanePair, UsesStreamsIfOneSideRequiresThem) {
  expect_lane_pair(open_both(options_with(lane_policy::stream),
                             options_with(lane_policy::automatic)),
                   "tcp");
  auto secured = options_with(lane_policy::stream);
  secured.stream_transport = "tls";
  expect_lane_pair(open_both(secured, secured), "tls");
}

TEST(LanePair, FallsBackToStreamsBetweenHosts) {
  const auto pair = open_both(options_with(lane_policy::automatic, "here"),
                              options_with(lane_policy::automatic, "there"));
  expect_lane_pair(pair, "tcp");
  EXPECT_TRUE(mentions(pair.dialer.lanes.shm_unavailable_reason, "one host"));
  EXPECT_TRUE(mentions(pair.acceptor.lanes.shm_unavailable_reason, "one host"));
}

TEST(LanePair, FailsOnBothSidesIfOneRequiresSharedMemoryBetweenHosts) {
  const auto pair = open_both(options_with(lane_policy::shm, "here"),
                              options_with(lane_policy::automatic, "there"));
  EXPECT_TRUE(mentions(pair.dialer.error, "one host")) << pair.dialer.error;
  EXPECT_TRUE(mentions(pair.acceptor.error, "one host")) << pair.acceptor.error;
}

TEST(LanePair, FailsOnBothSidesIfTheirPoliciesContradict) {
  const auto pair = open_both(options_with(lane_policy::shm),
                              options_with(lane_policy::stream));
  EXPECT_TRUE(mentions(pair.dialer.error, "same transport"))
    << pair.dialer.error;
  EXPECT_TRUE(mentions(pair.acceptor.error, "same transport"))
    << pair.acceptor.error;
}

TEST(LanePair, TimesOutOnASilentPeer) {
  auto contributions = connected_streams(), results = connected_streams();
  const auto x =
    open_one(std::move(contributions.first), std::move(results.first),
             {.handshake_timeout = std::chrono::milliseconds{20}}, true);
  EXPECT_TRUE(mentions(x.error, "in time")) << x.error;
}

TEST(LanePair, FailsWhenThePeerDisconnects) {
  auto contributions = connected_streams(), results = connected_streams();
  contributions.second.reset();
  const auto x =
    open_one(std::move(contributions.first), std::move(results.first),
             options_with(lane_policy::automatic), true);
  EXPECT_TRUE(mentions(x.error, "closed")) << x.error;
}

TEST(LanePair, RejectsOtherVersionsAndInvalidMessages) {
  const auto answer = [](auto&& say) {
    auto contributions = connected_streams(), results = connected_streams();
    message_stream peer{*contributions.second,
                        message_stream::clock::now() + test_timeout};
    say(peer, *contributions.second);
    return open_one(std::move(contributions.first), std::move(results.first),
                    options_with(lane_policy::automatic), true)
      .error;
  };
  EXPECT_TRUE(mentions(
    answer([](message_stream& peer, stream&) { peer.send(std::uint32_t{7}); }),
    "version 7"));
  EXPECT_TRUE(mentions(answer([](message_stream& peer, stream&) {
                         peer.send(std::uint32_t{3});
                         peer.send(std::uint8_t{9}, few_slots,
                                   std::string{"x"});
                       }),
                       "unexpected message"));
  EXPECT_TRUE(mentions(answer([](message_stream&, stream& s) {
                         const std::vector<std::byte> ones(64, std::byte{0xFF});
                         s.write_some(ones);
                       }),
                       "unexpected message"));
}

TEST(LanePair, ReportsThePeersReasonAsOneShortLine) {
  for (const auto policy : {lane_policy::shm, lane_policy::automatic}) {
    auto contributions = connected_streams(), results = connected_streams();
    message_stream peer{*contributions.second,
                        message_stream::clock::now() + test_timeout};
    peer.send(std::uint32_t{3});
    peer.send(policy, few_slots, std::string{"here"});
    const std::vector<std::uint8_t> token(32);
    peer.send(std::string{}, token, "no\n" + std::string(3000, 'x'));
    const auto x =
      open_one(std::move(contributions.first), std::move(results.first),
               options_with(policy, "here"), true);
    const auto& reason =
      x.error.empty() ? x.lanes.shm_unavailable_reason : x.error;
    EXPECT_TRUE(mentions(reason, "no?xxx")) << reason;
    EXPECT_LT(reason.size(), 400u);
  }
}

TEST(LanePair, RejectsSlotsOutOfRange) {
  auto contributions = connected_streams(), results = connected_streams();
  EXPECT_THROW(open_lanes(std::move(contributions.first),
                          std::move(results.first), {.slots = max_slots + 1}),
               std::invalid_argument);
}

TEST(LanePair, WorksBetweenTwoProcesses) {
  auto contributions = connected_streams(), results = connected_streams();
  const auto child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    contributions.second.reset();
    results.second.reset();
    auto x = open_one(std::move(contributions.first), std::move(results.first),
                      options_with(lane_policy::shm), true);
    packet_header header{};
    const auto bytes = x.error.empty()
                         ? take_eventually(*x.lanes.contributions, header)
                         : std::nullopt;
    const bool good =
      bytes && post_eventually(*x.lanes.results, header, *bytes);
    packet_header ignored_header{};
    const bool over =
      good && !take_eventually(*x.lanes.contributions, ignored_header);
    ::_exit(over ? 0 : 1);
  }
  contributions.first.reset();
  results.first.reset();
  auto x = open_one(std::move(contributions.second), std::move(results.second),
                    options_with(lane_policy::shm), false);
  ASSERT_EQ(x.error, "");
  ASSERT_TRUE(x.lanes.contributions->post(numbered_header(5),
                                          bytes_of(5, max_packet_bytes)));
  packet_header header{};
  const auto bytes = take_eventually(*x.lanes.results, header);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(*bytes, bytes_of(5, max_packet_bytes));
  x.lanes.contributions.reset(); // the child waits for the end of the lane
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}
