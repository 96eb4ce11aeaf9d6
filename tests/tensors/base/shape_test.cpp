#include "troupe/tensors/base/shape.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using troupe::broadcast;
using troupe::shape;

constexpr auto huge = std::numeric_limits<std::int64_t>::max();

TEST(Shape, CountsItsElements) {
  EXPECT_EQ(shape{}.elements(), 1u);
  EXPECT_EQ((shape{7}).elements(), 7u);
  EXPECT_EQ((shape{2, 3, 4}).elements(), 24u);
  EXPECT_EQ((shape{5, 0, 3}).elements(), 0u);
  EXPECT_EQ((shape{1, 1, 1, 1, 1, 1, 1, 2}).elements(), 2u);
}

TEST(Shape, RejectsANinthAxisAndANegativeExtent) {
  EXPECT_THROW((shape{1, 1, 1, 1, 1, 1, 1, 1, 1}), std::logic_error);
  EXPECT_THROW((shape{2, -1}), std::logic_error);
  EXPECT_THROW((shape{std::numeric_limits<std::int64_t>::min()}),
               std::logic_error);
}

TEST(Shape, RejectsAnOverflowingProductInAnyOrder) {
  EXPECT_NO_THROW((shape{1ll << 31, 1ll << 31}));
  EXPECT_THROW((shape{1ll << 32, 1ll << 31}), std::logic_error);
  EXPECT_THROW((shape{huge}), std::logic_error);
  EXPECT_THROW((shape{huge, 2}), std::logic_error);
  EXPECT_THROW((shape{1ll << 32, 1ll << 32}), std::logic_error); // 0 mod 2^64
  // Other extents are checked although one is zero, because `with_extent` could
  // replace the zero.
  EXPECT_THROW((shape{0, huge, 2}), std::logic_error);
  EXPECT_THROW((shape{huge, 2, 0}), std::logic_error);
}

TEST(Shape, ChecksAReplacedExtent) {
  const shape x{2, 3};
  EXPECT_EQ(x.with_extent(0, 5), (shape{5, 3}));
  EXPECT_EQ(x.with_extent(1, 0), (shape{2, 0}));
  EXPECT_THROW(x.with_extent(0, -1), std::logic_error);
  EXPECT_THROW(x.with_extent(0, huge), std::logic_error);
  EXPECT_THROW(x.with_extent(2, 1), std::logic_error);
}

TEST(Shape, ReturnsARangeOfItsAxes) {
  const shape x{2, 3, 4};
  EXPECT_EQ(x.axes(0, 3), x);
  EXPECT_EQ(x.axes(1, 3), (shape{3, 4}));
  EXPECT_EQ(x.axes(1, 1), shape{});
}

TEST(Shape, DiffersByRankAndByOrder) {
  EXPECT_EQ((shape{2, 3}), (shape{2, 3}));
  EXPECT_NE((shape{2, 3}), (shape{3, 2}));
  EXPECT_NE((shape{2}), (shape{2, 1}));
  EXPECT_NE(shape{}, (shape{0}));
}

TEST(Shape, IsFormattedAsAList) {
  EXPECT_EQ(to_string(shape{}), "[]");
  EXPECT_EQ(to_string(shape{64, 28, 28, 1}), "[64, 28, 28, 1]");
}

TEST(Broadcast, FollowsNumPysRule) {
  EXPECT_EQ(broadcast({}, {}), shape{});
  EXPECT_EQ(broadcast({3}, {}), (shape{3}));
  EXPECT_EQ(broadcast({4, 3}, {3}), (shape{4, 3}));
  EXPECT_EQ(broadcast({4, 1}, {1, 3}), (shape{4, 3}));
  EXPECT_EQ(broadcast({5, 1, 2}, {7, 1}), (shape{5, 7, 2}));
  EXPECT_EQ(broadcast({1}, {0}), (shape{0}));
}

TEST(Broadcast, IsCommutative) {
  const shape all[] = {{}, {1}, {3}, {2, 3}, {2, 1}, {4, 1, 3}, {1, 1, 1}};
  for (const auto& a : all)
    for (const auto& b : all)
      EXPECT_EQ(broadcast(a, b), broadcast(b, a));
}

TEST(Broadcast, ErrorsNameBothShapes) {
  try {
    broadcast({4, 3}, {2, 3});
    FAIL();
  } catch (const std::logic_error& error) {
    const std::string why = error.what();
    EXPECT_NE(why.find("[4, 3]"), why.npos) << why;
    EXPECT_NE(why.find("[2, 3]"), why.npos) << why;
  }
  EXPECT_THROW(broadcast({0}, {2}), std::logic_error);
}

TEST(Broadcast, RejectsATooLargeResult) {
  EXPECT_THROW(broadcast({1ll << 40, 1}, {1, 1ll << 40}), std::logic_error);
}

} // namespace
