#include "troupe/net/shm/descriptor_exchange.hpp"
#include "troupe/net/transport/lane_set.hpp"
#include "troupe/net/transport/message_stream.hpp"
#include "troupe/tests/net/lanes/lanes.hpp"
#include "troupe/tests/support/mentions.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <thread>

using troupe::test::mentions;
using namespace troupe::net;
using namespace troupe::net::testing;

namespace {

/// Result of `open_lanes` in one process: the lanes, or the error.
struct opened {
  lane_set lanes;
  std::string error;
};

using stream_list = std::vector<std::unique_ptr<stream>>;

/// Returns the streams of `count` lanes: the ends of one process, and the ends
/// of the other.
std::pair<stream_list, stream_list> streams_of(std::size_t count) {
  std::pair<stream_list, stream_list> ends;
  while (ends.first.size() < count) {
    auto [left, right] = connected_streams();
    ends.first.push_back(std::move(left));
    ends.second.push_back(std::move(right));
  }
  return ends;
}

opened open_one(stream_list streams, lane_options options, bool dialed) {
  options.is_dialer = dialed;
  try {
    return {open_lanes(std::move(streams), options), {}};
  } catch (const std::runtime_error& e) {
    return {{}, e.what()};
  }
}

struct opened_pair {
  opened dialer, acceptor;
};

opened_pair open_both(const lane_options& dialer, const lane_options& acceptor,
                      std::size_t count = 2) {
  auto [left, right] = streams_of(count);
  opened_pair pair;
  std::thread dialer_thread{[&, streams = std::move(left)]() mutable {
    pair.dialer = open_one(std::move(streams), dialer, true);
  }};
  pair.acceptor = open_one(std::move(right), acceptor, false);
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

void expect_lane_set(const opened_pair& pair, const std::string& transport,
                     std::size_t count = 2) {
  ASSERT_EQ(pair.dialer.error, "");
  ASSERT_EQ(pair.acceptor.error, "");
  EXPECT_EQ(pair.dialer.lanes.transport, transport);
  EXPECT_EQ(pair.acceptor.lanes.transport, transport);
  const auto& dialer_lanes = pair.dialer.lanes.lanes;
  const auto& acceptor_lanes = pair.acceptor.lanes.lanes;
  ASSERT_EQ(dialer_lanes.size(), count);
  ASSERT_EQ(acceptor_lanes.size(), count);
  for (std::size_t i = 0; i < count; ++i) {
    expect_carried(*dialer_lanes[i], *acceptor_lanes[i]);
    expect_carried(*acceptor_lanes[i], *dialer_lanes[i]);
  }
}

lane_options options_with(lane_policy policy, const std::string& host = {}) {
  return {.policy = policy,
          .handshake_timeout = test_timeout,
          .slots = few_slots,
          .host = host};
}

} // namespace

TEST(LaneSet, UsesSharedMemoryOnOneHost) {
  for (const auto mine : {lane_policy::automatic, lane_policy::shm})
    for (const auto theirs : {lane_policy::automatic, lane_policy::shm})
      expect_lane_set(open_both(options_with(mine), options_with(theirs)),
                      "shm");
}

TEST(LaneSet, HasTheNumberOfSlotsThatEachSideChooses) {
  auto many = options_with(lane_policy::shm);
  many.slots = 2 * few_slots;
  const auto pair = open_both(many, options_with(lane_policy::shm));
  expect_lane_set(pair, "shm");
  std::uint32_t posted = 0;
  while (pair.dialer.lanes.lanes[1]->post(numbered_header(0), bytes_of(0, 1)))
    ++posted;
  EXPECT_EQ(posted, 2 * few_slots);
}

TEST(LaneSet, PostsZeroCopyFromAnArena) {
  auto one = options_with(lane_policy::automatic);
  one.arena = std::make_shared<const shm_arena>(std::size_t{1} << 20);
  const auto pair = open_both(one, options_with(lane_policy::automatic));
  expect_lane_set(pair, "shm");
  const auto payload = one.arena->pages().subspan(4096, 65536);
  ASSERT_TRUE(
    pair.dialer.lanes.lanes[0]->post_zero_copy(numbered_header(1), payload));
  EXPECT_FALSE(pair.dialer.lanes.lanes[0]->flush());
  ASSERT_NE(pair.acceptor.lanes.lanes[0]->front(), nullptr);
  // The dialer changes a byte before the acceptor has released the packet. The
  // acceptor sees the change, so the payload was not copied.
  payload[5] = std::byte{9};
  EXPECT_EQ(pair.acceptor.lanes.lanes[0]->view()[5], std::byte{9});
  pair.acceptor.lanes.lanes[0]->pop();
  EXPECT_TRUE(pair.dialer.lanes.lanes[0]->flush());
}

TEST(LaneSet, UsesStreamsIfOneSideRequiresThem) {
  expect_lane_set(open_both(options_with(lane_policy::stream),
                            options_with(lane_policy::automatic)),
                  "tcp");
  auto secured = options_with(lane_policy::stream);
  secured.stream_transport = "tls";
  expect_lane_set(open_both(secured, secured), "tls");
}

TEST(LaneSet, FallsBackToStreamsBetweenHosts) {
  const auto pair = open_both(options_with(lane_policy::automatic, "here"),
                              options_with(lane_policy::automatic, "there"));
  expect_lane_set(pair, "tcp");
  EXPECT_TRUE(mentions(pair.dialer.lanes.shm_unavailable_reason, "one host"));
  EXPECT_TRUE(mentions(pair.acceptor.lanes.shm_unavailable_reason, "one host"));
}

TEST(LaneSet, FailsOnBothSidesIfOneRequiresSharedMemoryBetweenHosts) {
  const auto pair = open_both(options_with(lane_policy::shm, "here"),
                              options_with(lane_policy::automatic, "there"));
  EXPECT_TRUE(mentions(pair.dialer.error, "one host")) << pair.dialer.error;
  EXPECT_TRUE(mentions(pair.acceptor.error, "one host")) << pair.acceptor.error;
}

TEST(LaneSet, FailsOnBothSidesIfTheirPoliciesContradict) {
  const auto pair = open_both(options_with(lane_policy::shm),
                              options_with(lane_policy::stream));
  EXPECT_TRUE(mentions(pair.dialer.error, "same transport"))
    << pair.dialer.error;
  EXPECT_TRUE(mentions(pair.acceptor.error, "same transport"))
    << pair.acceptor.error;
}

TEST(LaneSet, TimesOutOnASilentPeer) {
  auto [mine, theirs] = streams_of(2);
  const auto x =
    open_one(std::move(mine),
             {.handshake_timeout = std::chrono::milliseconds{20}}, true);
  EXPECT_TRUE(mentions(x.error, "in time")) << x.error;
}

TEST(LaneSet, FailsWhenThePeerDisconnects) {
  auto [mine, theirs] = streams_of(2);
  theirs.clear();
  const auto x =
    open_one(std::move(mine), options_with(lane_policy::automatic), true);
  EXPECT_TRUE(mentions(x.error, "closed")) << x.error;
}

TEST(LaneSet, RejectsOtherVersionsAndInvalidMessages) {
  const auto answer = [](auto&& say) {
    auto [mine, theirs] = streams_of(2);
    message_stream peer{*theirs[0],
                        message_stream::clock::now() + test_timeout};
    say(peer, *theirs[0]);
    return open_one(std::move(mine), options_with(lane_policy::automatic), true)
      .error;
  };
  EXPECT_TRUE(mentions(
    answer([](message_stream& peer, stream&) { peer.send(std::uint32_t{7}); }),
    "version 7"));
  EXPECT_TRUE(mentions(answer([](message_stream& peer, stream&) {
                         peer.send(std::uint32_t{5});
                         peer.send(std::uint8_t{9}, std::uint32_t{2}, few_slots,
                                   std::string{"x"});
                       }),
                       "unexpected message"));
  EXPECT_TRUE(mentions(answer([](message_stream&, stream& s) {
                         const std::vector<std::byte> ones(64, std::byte{0xFF});
                         s.write_some(ones);
                       }),
                       "unexpected message"));
}

TEST(LaneSet, ReportsThePeersReasonAsOneShortLine) {
  for (const auto policy : {lane_policy::shm, lane_policy::automatic}) {
    auto [mine, theirs] = streams_of(2);
    message_stream peer{*theirs[0],
                        message_stream::clock::now() + test_timeout};
    peer.send(std::uint32_t{5});
    peer.send(policy, std::uint32_t{2}, few_slots, std::string{"here"});
    const std::vector<std::uint8_t> token(32);
    peer.send(std::string{}, token, "no\n" + std::string(3000, 'x'));
    const auto x =
      open_one(std::move(mine), options_with(policy, "here"), true);
    const auto& reason =
      x.error.empty() ? x.lanes.shm_unavailable_reason : x.error;
    EXPECT_TRUE(mentions(reason, "no?xxx")) << reason;
    EXPECT_LT(reason.size(), 400u);
  }
}

TEST(LaneSet, RejectsSlotsOutOfRange) {
  EXPECT_THROW(open_lanes(streams_of(2).first, {.slots = max_slots + 1}),
               std::invalid_argument);
}

TEST(LaneSet, OpensAsManyLanesAsThereAreStreams) {
  for (const auto policy : {lane_policy::shm, lane_policy::stream})
    for (const std::size_t count : {1, 2, 3, 5, 16})
      expect_lane_set(
        open_both(options_with(policy), options_with(policy), count),
        policy == lane_policy::shm ? "shm" : "tcp", count);
}

TEST(LaneSet, RejectsANumberOfLanesOutOfRange) {
  EXPECT_THROW(open_lanes({}), std::invalid_argument);
  EXPECT_THROW(open_lanes(streams_of(max_lanes + 1).first),
               std::invalid_argument);
}

TEST(LaneSet, FailsOnBothSidesIfTheirNumbersOfLanesDiffer) {
  for (const auto policy : {lane_policy::shm, lane_policy::stream}) {
    auto [mine, theirs] = streams_of(3);
    theirs.pop_back();
    opened dialer;
    std::thread dialer_thread{[&, streams = std::move(mine)]() mutable {
      dialer = open_one(std::move(streams), options_with(policy), true);
    }};
    const auto acceptor =
      open_one(std::move(theirs), options_with(policy), false);
    dialer_thread.join();
    EXPECT_TRUE(mentions(dialer.error, "opens 2 lanes")) << dialer.error;
    EXPECT_TRUE(mentions(acceptor.error, "opens 3 lanes")) << acceptor.error;
  }
}

TEST(LaneSet, AFullLaneDoesNotBlockTheOthers) {
  for (const auto policy : {lane_policy::shm, lane_policy::stream}) {
    const auto pair = open_both(options_with(policy), options_with(policy), 3);
    ASSERT_EQ(pair.dialer.error + pair.acceptor.error, "");
    const auto& sender = pair.dialer.lanes.lanes;
    const auto payload = bytes_of(1, max_packet_bytes);
    while (sender[1]->post(numbered_header(1), payload)) {
    }
    expect_carried(*sender[0], *pair.acceptor.lanes.lanes[0]);
    expect_carried(*sender[2], *pair.acceptor.lanes.lanes[2]);
  }
}

TEST(LaneSet, WorksBetweenTwoProcesses) {
  auto [left, right] = streams_of(2);
  const auto child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    right.clear();
    auto x = open_one(std::move(left), options_with(lane_policy::shm), true);
    packet_header header{};
    const auto bytes = x.error.empty()
                         ? take_eventually(*x.lanes.lanes[0], header)
                         : std::nullopt;
    const bool good =
      bytes && post_eventually(*x.lanes.lanes[1], header, *bytes);
    packet_header ignored_header{};
    const bool over =
      good && !take_eventually(*x.lanes.lanes[0], ignored_header);
    ::_exit(over ? 0 : 1);
  }
  left.clear();
  auto x = open_one(std::move(right), options_with(lane_policy::shm), false);
  ASSERT_EQ(x.error, "");
  ASSERT_TRUE(
    x.lanes.lanes[0]->post(numbered_header(5), bytes_of(5, max_packet_bytes)));
  packet_header header{};
  const auto bytes = take_eventually(*x.lanes.lanes[1], header);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(*bytes, bytes_of(5, max_packet_bytes));
  x.lanes.lanes[0].reset(); // the child waits for the end of the lane
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}
