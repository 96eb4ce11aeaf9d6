#include "troupe/actors/membership/peers/stream_table.hpp"

#include <gtest/gtest.h>

using namespace troupe;

namespace {

const membership::member first{1, 11, "host", 1, {}, 1};
const membership::member second{2, 12, "host", 1, {}, 1};

void add_all(stream_table& table, std::uint64_t view_id,
             const membership::member& member) {
  for (const auto* purpose : lane_purposes)
    table.add({view_id, member.task, member.incarnation, purpose}, nullptr);
}

TEST(StreamTable, HasAllStreamsWhenThereIsOneForEachPurpose) {
  stream_table table;
  table.add({1, first.task, first.incarnation, lane_purposes[0]}, nullptr);
  EXPECT_FALSE(table.has_all(1, first));
  add_all(table, 1, first);
  EXPECT_TRUE(table.has_all(1, first));
  EXPECT_FALSE(table.has_all(2, first));
  EXPECT_FALSE(table.has_all(1, second));
  auto successor = first;
  ++successor.incarnation;
  EXPECT_FALSE(table.has_all(1, successor));
}

TEST(StreamTable, GivesTheStreamsOfAMemberOnce) {
  stream_table table;
  add_all(table, 1, first);
  add_all(table, 1, second);
  EXPECT_EQ(table.take_all(1, first).size(), lane_purposes.size());
  EXPECT_FALSE(table.has_all(1, first));
  EXPECT_TRUE(table.has_all(1, second));
}

TEST(StreamTable, NamesAFailureOfTheViewOnly) {
  stream_table table;
  table.note_failure(2, 1, "it is closed");
  EXPECT_EQ(table.failure(1), "");
  EXPECT_EQ(table.failure(2), "it is closed");
  EXPECT_EQ(table.failure(3), "");
  EXPECT_TRUE(table.has_failed(2, 1));
  EXPECT_FALSE(table.has_failed(2, 2));
}

TEST(StreamTable, ForgetsEarlierViews) {
  stream_table table;
  for (std::uint64_t view_id = 1; view_id <= 2; ++view_id) {
    add_all(table, view_id, first);
    table.note_failure(view_id, 2, "it is closed");
  }
  table.forget_before(2);
  EXPECT_EQ(table.size(), lane_purposes.size());
  EXPECT_TRUE(table.has_all(2, first));
  EXPECT_EQ(table.failure(1), "");
  EXPECT_EQ(table.failure(2), "it is closed");
}

} // namespace
