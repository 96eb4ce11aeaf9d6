#include "troupe/tests/support/becomes_true.hpp"
#include "troupe/tests/support/error_text.hpp"
#include "troupe/tests/tensors/simulated_device.hpp"
#include "troupe/training/loop/feed/batch_feed.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <stdexcept>

// On the simulated device, a copy takes place when the computation is made to
// wait for it, so code that forgets this reads other elements.

namespace {

using namespace troupe;
using namespace troupe::test;

/// 22 examples in batches of 4, of which the last is short. The elements of
/// example i are i, and its label is i.
data::dataset counted() {
  tensor inputs{shape{22, 3}}, labels{shape{22}, dtype::int32};
  for (std::size_t i = 0; i < inputs.size(); ++i)
    inputs.mutable_data<float>()[i] = static_cast<float>(i / 3);
  for (std::size_t i = 0; i < labels.size(); ++i)
    labels.mutable_data<std::int32_t>()[i] = static_cast<std::int32_t>(i);
  return data::dataset{inputs, labels}.batch(4);
}

constexpr std::uint64_t batches = 6;

std::unique_ptr<replica_group> group_of(std::uint32_t replicas) {
  return make_sequential_group({.replicas = replicas});
}

/// Expects the rows of `counted` at this step.
void expect_rows(const step_batch& got, std::uint64_t step) {
  auto cursor = counted().iterate({0, step});
  const auto want = *cursor.next();
  for (const auto* one : {&got.rows, &got.on_device}) {
    EXPECT_TRUE(same_bits(one->first.rows.inputs, want.inputs)) << step;
    EXPECT_TRUE(same_bits(one->first.rows.labels, want.labels)) << step;
    EXPECT_EQ(one->global_rows, want.rows());
  }
  EXPECT_EQ(got.rows.first.rows.inputs.device(), device{});
  EXPECT_EQ(got.on_device.first.rows.inputs.device(), gpu);
  EXPECT_EQ(got.on_device.first.rows.labels.device(), gpu);
}

/// Waits until the thread that reads has the batch after a step.
void copy_next(batch_feed& feed, std::uint64_t step) {
  ASSERT_TRUE(becomes_true([&] { return feed.copy_ahead(step); }));
}

TEST(BatchFeed, CopiesTheNextBatchWhileAStepComputes) {
  simulated_devices devices;
  const auto group = group_of(1);
  batch_feed feed{counted().prefetch(2), {}, 0, *group, {}, {gpu}};
  for (std::uint64_t step = 0; step < batches; ++step) {
    const auto got = feed.batch_of_step(step);
    EXPECT_EQ(devices.copies_ahead, 2 * int(step + 1)) << "inputs and labels";
    if (step + 1 < batches) {
      copy_next(feed, step);
      EXPECT_EQ(devices.copies_ahead, 2 * int(step + 2));
    }
    expect_rows(got, step);
    EXPECT_TRUE(devices.is_pinned(got.rows.first.rows.inputs.raw()));
  }
  EXPECT_FALSE(feed.copy_ahead(batches - 1));
}

/// The copies of each batch use memory that was reserved before its step.
TEST(BatchFeed, KeepsMemoryForTwoBatches) {
  simulated_devices devices;
  const auto group = group_of(1);
  batch_feed feed{counted().prefetch(2), {}, 0, *group, {}, {gpu}};
  constexpr std::size_t bytes = 4 * (3 + 1) * 4;
  for (std::uint64_t step = 0; step + 1 < batches; ++step) {
    feed.batch_of_step(step);
    EXPECT_EQ(devices.used(gpu).live, 2 * bytes) << "this one and the next";
    copy_next(feed, step);
  }
  EXPECT_LE(devices.used(gpu).peak, 2 * bytes);
}

TEST(BatchFeed, GoesOnWithoutMemoryForTheNextBatch) {
  constexpr std::size_t bytes = 4 * (3 + 1) * 4;
  for (const auto limit : {bytes, bytes + 4 * 3 * 4, 2 * bytes - 1}) {
    simulated_devices devices;
    devices.limit = limit;
    const auto group = group_of(1);
    batch_feed feed{counted().prefetch(2), {}, 0, *group, {}, {gpu}};
    for (std::uint64_t step = 0; step < batches; ++step) {
      expect_rows(feed.batch_of_step(step), step);
      EXPECT_FALSE(feed.copy_ahead(step));
    }
  }
}

/// The memory that was reserved is too small for the next batch.
TEST(BatchFeed, CopiesABatchInItsStepThatHadNoMemoryBefore) {
  simulated_devices devices;
  const auto group = group_of(1);
  const auto batch_of = [](std::int64_t rows) {
    return batch{.inputs = tensor::full({rows, 3}, double(rows)),
                 .labels = tensor::zeros({rows}, dtype::int32)};
  };
  const data::dataset growing{
    2, 10, [batch_of](std::uint64_t i) { return batch_of(4 << i); }};
  constexpr std::size_t row_bytes = (3 + 1) * 4;
  devices.limit = (4 + 8) * row_bytes - 1;
  batch_feed feed{growing.prefetch(2), {}, 0, *group, {}, {gpu}};
  feed.batch_of_step(0);
  EXPECT_EQ(devices.used(gpu).live, 2 * 4 * row_bytes);
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes{1};
  while (devices.used(gpu).live > 4 * row_bytes) { // the copy was not tried
    EXPECT_FALSE(feed.copy_ahead(0));
    ASSERT_LT(std::chrono::steady_clock::now(), end);
  }
  const auto got = feed.batch_of_step(1);
  EXPECT_TRUE(same_bits(got.on_device.first.rows.inputs, batch_of(8).inputs));
}

/// The thread that reads waits for a batch longer than the dataset's timeout,
/// which is that of a step.
TEST(BatchFeed, AStepWaitsAgainAfterATimeout) {
  simulated_devices devices;
  const auto group = group_of(1);
  std::promise<void> is_made;
  const auto made = is_made.get_future().share();
  const auto slow = counted().map([made](const batch& x) {
    if (x.labels.data<std::int32_t>()[0] == 4)
      made.wait();
    return x;
  });
  constexpr std::chrono::milliseconds timeout{1'000};
  batch_feed feed{slow.prefetch(2, timeout), {}, 0, *group, {}, {gpu}};
  feed.batch_of_step(0);
  EXPECT_EQ(test::text_of([&] { feed.batch_of_step(1); }),
            "no element was ready within 1000 ms: a map function hangs, or "
            "prefetch needs a longer timeout");
  is_made.set_value();
  copy_next(feed, 0);
  expect_rows(feed.batch_of_step(1), 1);
}

TEST(BatchFeed, BeginsWithTheBatchOfItsPosition) {
  simulated_devices devices;
  const auto group = group_of(1);
  batch_feed feed{counted().prefetch(2), {0, 3}, 13, *group, {}, {gpu}};
  expect_rows(feed.batch_of_step(13), 3);
  copy_next(feed, 13);
  expect_rows(feed.batch_of_step(14), 4);
}

/// As after a change of the view. The simulated device checks that no copy is
/// under way when its memory is released.
TEST(BatchFeed, ReleasesCopiesThatNoStepHasUsed) {
  simulated_devices devices;
  const auto group = group_of(1);
  {
    batch_feed feed{counted().prefetch(2), {}, 0, *group, {}, {gpu}};
    feed.batch_of_step(0);
    copy_next(feed, 0);
    EXPECT_EQ(devices.copies_ahead, 4);
  }
  EXPECT_EQ(devices.used(gpu).live, 0u);
  batch_feed next{counted().prefetch(2), {0, 1}, 1, *group, {}, {gpu}};
  expect_rows(next.batch_of_step(1), 1);
}

TEST(BatchFeed, ReadsNothingAheadWithoutPrefetching) {
  simulated_devices devices;
  const auto group = group_of(1);
  int reads = 0;
  const auto all = counted().map([&](const batch& x) {
    ++reads;
    return x;
  });
  batch_feed feed{all, {}, 0, *group, {}, {gpu}};
  for (std::uint64_t step = 0; step < batches; ++step) {
    const auto got = feed.batch_of_step(step);
    EXPECT_FALSE(feed.copy_ahead(step));
    EXPECT_EQ(reads, int(step + 1));
    expect_rows(got, step);
  }
}

/// The error belongs to the step whose batch cannot be read.
TEST(BatchFeed, ThrowsTheErrorOfAReadInItsStep) {
  simulated_devices devices;
  const auto group = group_of(1);
  const auto all = counted().map([](const batch& x) {
    if (x.labels.data<std::int32_t>()[0] == 4)
      throw std::runtime_error("no batch 1");
    return x;
  });
  batch_feed feed{all.prefetch(2), {}, 0, *group, {}, {gpu}};
  expect_rows(feed.batch_of_step(0), 0);
  EXPECT_FALSE(feed.copy_ahead(0));
  EXPECT_THROW(feed.batch_of_step(1), std::runtime_error);
}

TEST(BatchFeed, AReplicaThatIsAheadStartsTheCopies) {
  simulated_devices devices;
  const auto group = group_of(2);
  const auto ahead = group->max_steps_ahead();
  batch_feed feed{counted().prefetch(2), {}, 0, *group, {}, {gpu}};
  for (std::uint64_t step = 0; step <= ahead; ++step) {
    feed.batch_of_step(step);
    copy_next(feed, step);
  }
  for (std::uint64_t step = 0; step <= ahead; ++step) {
    expect_rows(feed.batch_of_step(step), step);
    EXPECT_TRUE(feed.copy_ahead(step));
  }
  EXPECT_EQ(devices.copies_ahead, 2 * int(ahead + 2)) << "each batch once";
  feed.batch_of_step(ahead + 1);
  EXPECT_THROW(feed.batch_of_step(0), std::logic_error);
}

TEST(BatchFeed, CopiesNothingThatIsOnTheDevice) {
  simulated_devices devices;
  const auto group = group_of(1);
  const auto all = counted().map([](batch x) {
    x.inputs = x.inputs.to(gpu);
    return x;
  });
  batch_feed feed{all.prefetch(1), {}, 0, *group, {}, {gpu}};
  const auto got = feed.batch_of_step(0);
  EXPECT_EQ(devices.copies_ahead, 1) << "the labels";
  EXPECT_TRUE(got.on_device.first.rows.inputs.shares_storage_with(
    got.rows.first.rows.inputs));
}

TEST(BatchFeed, GivesTheRowsOfTheDatasetOnTheCpu) {
  const auto group = group_of(1);
  batch_feed feed{counted().prefetch(2), {}, 0, *group};
  const auto got = feed.batch_of_step(0);
  EXPECT_FALSE(feed.copy_ahead(0));
  EXPECT_TRUE(got.on_device.first.rows.inputs.shares_storage_with(
    got.rows.first.rows.inputs));
}

} // namespace
