#include "troupe/strategies/parameter_server/copy_views.hpp"

#include <gtest/gtest.h>

// Single decisions. Runs under faults are in random_jobs_test.cpp.

namespace troupe::parameter_server {

namespace {

using names = std::vector<std::uint64_t>;
using counts = std::vector<std::uint32_t>;

copy_position position(std::uint64_t view_id, bool is_in_sync,
                       std::uint64_t sequence = 0, std::uint64_t term = 1) {
  return {view_id, term, sequence, is_in_sync};
}

TEST(CopyViews, PlacesTheCopiesOfTheShardsOneServerFurtherEach) {
  copy_views all{3, 2};
  EXPECT_TRUE(all.start({10, 11, 12}).views_changed);
  const auto views = all.views();
  EXPECT_EQ(views[0].primary, 10u);
  EXPECT_EQ(views[0].backups, names{11});
  EXPECT_EQ(views[2].primary, 12u);
  EXPECT_EQ(views[2].backups, names{10});
  EXPECT_EQ(views[2].previous_term, 0u);
}

TEST(CopyViews, HasFewerCopiesUntilAServerJoins) {
  copy_views all{1, 3};
  all.start({10});
  EXPECT_TRUE(all.views()[0].backups.empty());
  EXPECT_TRUE(all.on_server(11).views_changed);
  EXPECT_EQ(all.views()[0].backups, names{11});
  EXPECT_TRUE(all.on_server(12).views_changed);
  EXPECT_EQ(all.views()[0].view_id, 3u);
  EXPECT_EQ(all.views()[0].term, 1u);
  EXPECT_FALSE(all.on_server(13).views_changed);
}

TEST(CopyViews, CountsTheCopiesInSync) {
  copy_views all{2, 2};
  all.start({10, 11});
  EXPECT_EQ(all.in_sync(), (counts{0, 0})); // none has said so
  all.on_positions(10, 0, {position(1, true), position(1, true)});
  EXPECT_EQ(all.in_sync(), (counts{1, 1}));
  all.on_positions(11, 0, {position(1, true), position(1, false)});
  EXPECT_EQ(all.in_sync(), (counts{2, 1}));
  EXPECT_FALSE(all.is_settled());
  all.on_positions(11, 0, {position(1, true), position(1, true)});
  EXPECT_EQ(all.in_sync(), (counts{2, 2}));
  EXPECT_TRUE(all.is_settled());
  all.on_server_lost(10); // its shard 0 waits for the answer of 11
  EXPECT_EQ(all.in_sync(), (counts{1, 0}));
  EXPECT_FALSE(all.is_settled());
  all.on_positions(11, all.poll(), {position(1, true), position(2, true)});
  all.on_positions(11, all.poll(),
                   {position(2, true, 0, 2), position(2, true)});
  EXPECT_EQ(all.in_sync(), (counts{1, 1}));
  EXPECT_TRUE(all.is_settled()); // there is one server
}

TEST(CopyViews, PromotesABackupInSyncThatAnswersAfterTheLoss) {
  copy_views all{1, 3};
  all.start({10, 11, 12});
  all.on_positions(11, 0, {position(1, true)});
  all.on_positions(12, 0, {position(1, true)});
  const auto lost = all.on_server_lost(10);
  EXPECT_FALSE(lost.views_changed); // 11 and 12 may be lost too
  EXPECT_TRUE(lost.asks_positions);
  EXPECT_TRUE(
    all.on_positions(12, all.poll(), {position(1, true)}).views_changed);
  const auto view = all.views()[0];
  EXPECT_EQ(view.primary, 12u);
  EXPECT_EQ(view.backups, names{11});
  EXPECT_EQ(view.view_id, 2u);
  EXPECT_EQ(view.term, 2u);
  EXPECT_EQ(view.previous_term, 1u);
}

TEST(CopyViews, PromotesNoCopyThatWasInSyncInAnOlderView) {
  copy_views all{1, 2};
  all.start({10, 11});
  all.on_positions(11, 0, {position(1, true)});
  all.on_server(12);
  all.on_server_lost(11); // view 2 is {10, 12}
  all.on_positions(12, all.poll(), {position(1, true)});
  const auto after = all.on_server_lost(10);
  EXPECT_FALSE(after.views_changed);
  EXPECT_TRUE(after.asks_positions);
  EXPECT_TRUE(after.lost_shards.empty()); // 12 may be in sync now
  EXPECT_TRUE(
    all.on_positions(12, all.poll(), {position(2, true)}).views_changed);
  EXPECT_EQ(all.views()[0].primary, 12u);
}

TEST(CopyViews, GivesAShardUpWhenNoBackupIsInSyncAfterTheLoss) {
  copy_views all{1, 2};
  all.start({10, 11});
  const auto before = all.poll();
  all.on_positions(11, before, {position(1, false)});
  EXPECT_TRUE(all.on_server_lost(10).lost_shards.empty());
  // An answer that was on its way says nothing about the time since then.
  EXPECT_TRUE(
    all.on_positions(11, before, {position(1, false)}).lost_shards.empty());
  EXPECT_TRUE(all.on_timeout().asks_positions);
  EXPECT_EQ(all.on_positions(11, all.poll(), {position(1, false)}).lost_shards,
            std::vector<std::uint32_t>{0});
  EXPECT_TRUE(all.is_lost(0));
  EXPECT_FALSE(
    all.on_positions(11, all.poll(), {position(1, true)}).views_changed);
}

TEST(CopyViews, GivesAShardWithoutABackupUpAtOnce) {
  copy_views all{2, 1};
  all.start({10, 11});
  EXPECT_EQ(all.on_server_lost(11).lost_shards, std::vector<std::uint32_t>{1});
  EXPECT_FALSE(all.is_lost(0));
}

TEST(CopyViews, GivesNewBackupsToTheServersWithTheFewestCopies) {
  copy_views all{3, 2};
  all.start({10, 11, 12});
  all.on_server(13);
  // 11 had the primary of shard 1, and a backup of shard 0.
  all.on_server_lost(11);
  all.on_positions(12, all.poll(),
                   {position(1, true), position(1, true), position(1, true)});
  const auto views = all.views();
  EXPECT_EQ(views[0].backups, names{13});
  EXPECT_EQ(views[1].primary, 12u);
  EXPECT_EQ(views[1].backups, names{13});
}

TEST(CopyViews, IgnoresAnswersThatCannotBe) {
  copy_views all{2, 2};
  all.start({10, 11});
  all.on_server_lost(10);
  const std::vector<copy_position> good{position(1, true), position(1, true)};
  EXPECT_FALSE(all.on_positions(10, all.poll(), good).views_changed);
  EXPECT_FALSE(all.on_positions(11, all.poll() + 1, good).views_changed);
  EXPECT_FALSE(all.on_positions(11, all.poll(), {good[0]}).views_changed);
  EXPECT_TRUE(all.on_positions(11, all.poll(), good).views_changed);
}

} // namespace

} // namespace troupe::parameter_server
