#include "troupe/strategies/parameter_server/server_placement.hpp"
#include "troupe/tests/strategies/parameter_server/message_of.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <stdexcept>

using namespace troupe;
using namespace troupe::parameter_server;
using test::message_of;

namespace {

using servers = std::vector<std::uint32_t>;
using byte_counts = std::vector<std::uint64_t>;

constexpr tensor_spec scalar{{}, dtype::float32};

tensor_spec bytes_of(std::int64_t n) {
  return {{n}, dtype::uint8};
}

} // namespace

TEST(ServerPlacement, PlacesScalarsRoundRobin) {
  server_placement x{3};
  servers found;
  for (int i = 0; i < 7; ++i)
    found.push_back(x.place(scalar, {1, 1}).at(0));
  EXPECT_EQ(found, (servers{0, 1, 2, 0, 1, 2, 0}));
  EXPECT_EQ(x.bytes(), (byte_counts{12, 8, 8}));
}

TEST(ServerPlacement, RoundRobinGoesOnOverAllVariables) {
  server_placement x{3, placement_policy::round_robin};
  EXPECT_EQ(x.place({{10, 2}, dtype::float32}, {10, 4}), (servers{0, 1, 2, 0}));
  EXPECT_EQ(x.place(scalar, {1, 1}), (servers{1}));
  EXPECT_EQ(x.place({{5}, dtype::float64}, {5, 2}), (servers{2, 0}));
  // 3, 3, 2 and 2 rows of 8 bytes; 4 bytes; 3 and 2 rows of 8 bytes.
  EXPECT_EQ(x.bytes(), (byte_counts{24 + 16 + 16, 24 + 4, 16 + 24}));
}

TEST(ServerPlacement, LeastBytesPrefersTheFirstOfEqualServers) {
  server_placement x{3, placement_policy::least_bytes};
  EXPECT_EQ(x.place(bytes_of(10), {10, 1}), (servers{0}));
  EXPECT_EQ(x.place(bytes_of(4), {4, 1}), (servers{1}));
  EXPECT_EQ(x.place(bytes_of(4), {4, 1}), (servers{2}));
  EXPECT_EQ(x.place(bytes_of(7), {7, 1}), (servers{1}));
  EXPECT_EQ(x.place(bytes_of(6), {6, 1}), (servers{2}));
  // 10, 11 and 10 bytes.
  EXPECT_EQ(x.place(bytes_of(2), {2, 1}), (servers{0}));
  EXPECT_EQ(x.bytes(), (byte_counts{12, 11, 10}));
}

TEST(ServerPlacement, LeastBytesChoosesForEachShard) {
  server_placement x{2, placement_policy::least_bytes};
  EXPECT_EQ(x.place(bytes_of(8), {8, 1}), (servers{0}));
  // 4, 3 and 3 bytes.
  EXPECT_EQ(x.place(bytes_of(10), {10, 3}), (servers{1, 1, 1}));
  EXPECT_EQ(x.bytes(), (byte_counts{8, 10}));
  EXPECT_EQ(x.place(bytes_of(0), {0, 1}), (servers{0}));
}

TEST(ServerPlacement, LeastBytesKeepsTheServersWithinOneShard) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 rng{seed};
    const auto count = static_cast<std::uint32_t>(1 + rng() % 6);
    server_placement x{count, placement_policy::least_bytes};
    byte_counts expected(count);
    std::uint64_t largest = 0;
    for (int i = 0; i < 20; ++i) {
      const auto rows = static_cast<std::int64_t>(1 + rng() % 30);
      const row_sharding sharding{
        rows, static_cast<std::uint32_t>(1 + rng() % std::uint64_t(rows))};
      const auto found = x.place({{rows, 3}, dtype::float64}, sharding);
      ASSERT_EQ(found.size(), sharding.shards());
      for (std::uint32_t shard = 0; shard < sharding.shards(); ++shard) {
        // No server has fewer bytes, and none before it as few.
        for (std::uint32_t s = 0; s < count; ++s)
          EXPECT_TRUE(s < found[shard] ? expected[s] > expected[found[shard]]
                                       : expected[s] >= expected[found[shard]]);
        const auto bytes = 24 * std::uint64_t(sharding.range_of(shard).size());
        expected[found[shard]] += bytes;
        largest = std::max(largest, bytes);
      }
    }
    EXPECT_EQ(x.bytes(), expected);
    const auto [least, most] = std::ranges::minmax_element(expected);
    EXPECT_LE(*most - *least, largest);
  }
}

TEST(ServerPlacement, FreesThePlaceOfWhatIsRemoved) {
  server_placement x{2, placement_policy::least_bytes};
  // Parts of 4, 3 and 3 bytes: on the servers 0, 1 and 1.
  const row_sharding sharding{10, 3};
  const auto placed = x.place(bytes_of(10), sharding);
  x.place(bytes_of(1), {1, 1}); // on server 0
  x.remove(bytes_of(10), sharding, placed);
  EXPECT_EQ(x.bytes(), (byte_counts{1, 0}));
}

TEST(ServerPlacement, RejectsNoServers) {
  EXPECT_EQ(message_of<std::invalid_argument>([] { server_placement{0}; }),
            "the number of parameter servers is 0; it must be at least 1");
}

TEST(ServerPlacement, RejectsTheShardingOfAnotherVariable) {
  server_placement x{2};
  EXPECT_EQ(message_of<std::logic_error>([&] {
              x.place({{5, 2}, dtype::float32}, {4, 2});
            }),
            "4 rows of a variable float32[5, 2]");
  EXPECT_THROW(x.place(scalar, {2, 1}), std::logic_error);
  EXPECT_EQ(x.bytes(), (byte_counts{0, 0}));
  EXPECT_EQ(x.place(scalar, {1, 1}), (servers{0}));
}
