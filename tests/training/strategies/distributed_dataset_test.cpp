#include "troupe/tensors/random.hpp"
#include "troupe/training/strategies/distributed_dataset.hpp"
#include "troupe/training/strategies/local_strategies.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace {

using namespace troupe;

one_device_strategy replicas_in_turn(std::uint32_t replicas) {
  return one_device_strategy{"cpu:0", {.replicas = replicas}};
}

data::dataset range(std::int64_t n) {
  tensor inputs{shape{n, 1}}, labels{shape{n}, dtype::int32};
  for (std::int64_t i = 0; i < n; ++i) {
    inputs.mutable_data<float>()[std::size_t(i)] = static_cast<float>(i);
    labels.mutable_data<std::int32_t>()[std::size_t(i)] = std::int32_t(i);
  }
  return {inputs, labels};
}

using lists = std::vector<std::vector<std::vector<std::int32_t>>>;

lists divided_batches(const distributed_dataset& x) {
  lists batches;
  for (const auto& step : x) {
    auto& here = batches.emplace_back();
    for (const auto& part : step) {
      const auto labels = part.labels.data<std::int32_t>();
      here.emplace_back(labels.begin(), labels.end());
    }
  }
  return batches;
}

TEST(RowRange, DividesEvenlyWithTheLongerRangesFirst) {
  EXPECT_EQ(shard_of(7, 0, 4), (row_range{0, 2}));
  EXPECT_EQ(shard_of(7, 2, 4), (row_range{4, 6}));
  EXPECT_EQ(shard_of(7, 3, 4), (row_range{6, 7}));
  EXPECT_EQ(shard_of(1, 1, 2), (row_range{1, 1}));
  for (std::int64_t rows = 0; rows < 40; ++rows)
    for (std::uint32_t replicas = 1; replicas < 9; ++replicas) {
      std::int64_t next_row = 0;
      for (std::uint32_t id = 0; id < replicas; ++id) {
        const auto mine = shard_of(rows, id, replicas);
        ASSERT_EQ(mine.begin, next_row);
        ASSERT_LE(mine.size(), shard_of(rows, 0, replicas).size());
        ASSERT_GE(mine.size() + 1, shard_of(rows, 0, replicas).size());
        next_row = mine.end;
      }
      ASSERT_EQ(next_row, rows);
    }
}

std::vector<std::int64_t> sizes_of(std::int64_t rows,
                                   const batch_shares& shares) {
  std::vector<std::int64_t> out;
  for (std::uint32_t id = 0; id < shares.size(); ++id)
    out.push_back(shard_of(rows, id, id + 1, shares).size());
  return out;
}

TEST(RowRange, DividesInProportionToTheShares) {
  using sizes = std::vector<std::int64_t>;
  EXPECT_EQ(sizes_of(8, {3, 1}), (sizes{6, 2}));
  EXPECT_EQ(sizes_of(7, {3, 1}), (sizes{5, 2})); // of 5.25 and 1.75
  EXPECT_EQ(sizes_of(1, {3, 1}), (sizes{1, 0}));
  EXPECT_EQ(sizes_of(1, {1, 3}), (sizes{0, 1}));
  EXPECT_EQ(sizes_of(0, {3, 1}), (sizes{0, 0}));
  EXPECT_EQ(sizes_of(10, {2, 1, 1}), (sizes{5, 3, 2})); // of 5, 2.5 and 2.5
  EXPECT_EQ(sizes_of(9, {1, 1, 7}), (sizes{1, 1, 7}));
  EXPECT_EQ(sizes_of(5, {4}), (sizes{5}));
  EXPECT_EQ(shard_of(8, 1, 3, std::vector<std::uint32_t>{1, 2, 1}),
            (row_range{2, 8}));
  const auto huge = std::int64_t{1} << 62;
  EXPECT_EQ(sizes_of(huge, {max_share, max_share}),
            (sizes{huge / 2, huge / 2}));
}

TEST(RowRange, PartsOfRandomSharesAreTheWholeBatch) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    random_stream draw{{.seed = seed}};
    batch_shares shares(1 + draw.below(9));
    std::int64_t total = 0;
    for (auto& share : shares)
      total += share = 1 + std::uint32_t(draw.below(1 + draw.below(1000)));
    const auto rows = std::int64_t(draw.below(300));
    const auto trace = "seed " + std::to_string(seed) + ", shares "
                       + shares_text(shares) + ", rows " + std::to_string(rows);
    std::int64_t next_row = 0;
    for (std::uint32_t id = 0; id < shares.size(); ++id) {
      const auto mine = shard_of(rows, id, id + 1, shares);
      ASSERT_EQ(mine.begin, next_row) << trace << ", replica " << id;
      ASSERT_LT(std::abs(mine.size() * total - rows * shares[id]), total)
        << trace << ", replica " << id << ": not within one row";
      next_row = mine.end;
    }
    ASSERT_EQ(next_row, rows) << trace;
    const batch_shares equal(shares.size(), shares[0]);
    const auto replicas = std::uint32_t(shares.size());
    for (std::uint32_t id = 0; id < replicas; ++id)
      ASSERT_EQ(shard_of(rows, id, id + 1, equal), shard_of(rows, id, replicas))
        << trace << ", replica " << id;
  }
}

TEST(DistributedDataset, DividesByShares) {
  const auto two = replicas_in_turn(2);
  EXPECT_EQ(divided_batches(two.distribute(range(9).batch(4), {3, 1})),
            (lists{{{0, 1, 2}, {3}}, {{4, 5, 6}, {7}}, {{8}, {}}}));
  EXPECT_EQ(divided_batches(two.distribute(range(9).batch(4), {7, 7})),
            divided_batches(two.distribute(range(9).batch(4))));
}

TEST(DistributedDataset, NamesSharesThatAreInvalid) {
  const auto two = replicas_in_turn(2);
  const auto has = [&](const batch_shares& shares, const std::string& text) {
    try {
      two.distribute(range(4).batch(4), shares);
      ADD_FAILURE() << "no error; expected: " << text;
    } catch (const std::invalid_argument& e) {
      EXPECT_NE(std::string{e.what()}.find(text), std::string::npos)
        << e.what();
    }
  };
  has({3}, "replica_shares 3: there are 1 shares for 2 replicas");
  has({3, 1, 1}, "replica_shares 3,1,1: there are 3 shares for 2 replicas");
  has({3, 0}, "replica_shares 3,0: the share of replica 1");
  has({max_share + 1, 1}, "the share of replica 0 is not a number from 1 to");
}

TEST(DistributedDataset, DividesEachGlobalBatchOverTheReplicas) {
  const auto two = replicas_in_turn(2);
  EXPECT_EQ(divided_batches(two.distribute(range(9).batch(4))),
            (lists{{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}, {{8}, {}}}));
  EXPECT_EQ(divided_batches(two.distribute(range(6).batch(4))),
            (lists{{{0, 1}, {2, 3}}, {{4}, {5}}}));
  EXPECT_EQ(divided_batches(replicas_in_turn(5).distribute(range(4).batch(4))),
            (lists{{{0}, {1}, {2}, {3}, {}}}));
  EXPECT_EQ(divided_batches(two.distribute(range(9).batch(4, true))).size(),
            2u);
}

TEST(DistributedDataset, EachPartCarriesTheGlobalRowCount) {
  const auto plain = range(9).batch(4);
  // A batch that the dataset itself returns contains its own row count.
  EXPECT_EQ(plain.iterate().next()->global_rows, 4);
  for (const auto& batches :
       {plain, plain.map([](const batch& x) { return x; })}) {
    std::vector<std::int64_t> rows;
    for (const auto& step : replicas_in_turn(2).distribute(batches))
      for (const auto& part : step)
        rows.push_back(part.global_rows);
    EXPECT_EQ(rows, (std::vector<std::int64_t>{4, 4, 4, 4, 1, 1}));
  }
}

TEST(DistributedDataset, PartsShareElementsOfTheGlobalBatch) {
  const auto global = *range(8).batch(8).iterate().next();
  const auto part = select_rows(global, shard_of(8, 1, 2));
  EXPECT_TRUE(part.inputs.shares_storage_with(global.inputs));
}

std::vector<std::int32_t> labels_of(const lists& all) {
  std::vector<std::int32_t> out;
  for (const auto& step : all)
    for (const auto& part : step)
      out.insert(out.end(), part.begin(), part.end());
  return out;
}

/// Returns the labels of an epoch, read from the dataset itself.
std::vector<std::int32_t> labels_of(const data::dataset& x,
                                    std::uint64_t pass) {
  std::vector<std::int32_t> out;
  for (auto each = x.iterate({pass, 0}); const auto& step : each) {
    const auto labels = step.labels.data<std::int32_t>();
    out.insert(out.end(), labels.begin(), labels.end());
  }
  return out;
}

TEST(DistributedDataset, EachLoopReadsTheNextEpoch) {
  const auto data = range(40).shuffle(data::whole_dataset, 5).batch(8);
  EXPECT_NE(labels_of(data, 0), labels_of(data, 1));
  const auto batches = replicas_in_turn(2).distribute(data), copy = batches;
  EXPECT_EQ(labels_of(divided_batches(batches)), labels_of(data, 0));
  EXPECT_EQ(labels_of(divided_batches(copy)), labels_of(data, 1));
  for (const auto& step : batches) { // A loop that ends early counts too.
    EXPECT_EQ(step.size(), 2u);
    break;
  }
  EXPECT_EQ(labels_of(divided_batches(batches)), labels_of(data, 3));
  EXPECT_EQ(labels_of(divided_batches(replicas_in_turn(2).distribute(data))),
            labels_of(data, 0));
}

TEST(DistributedDataset, IterateBeginsAtAGivenPosition) {
  const auto data = range(40).shuffle(data::whole_dataset, 5).batch(8);
  const auto batches = replicas_in_turn(2).distribute(data);
  for (const std::uint64_t pass : {2, 0, 2}) {
    std::vector<std::int32_t> seen;
    for (const auto& step : batches.iterate({pass, 1}))
      for (const auto& part : step) {
        const auto labels = part.labels.data<std::int32_t>();
        seen.insert(seen.end(), labels.begin(), labels.end());
      }
    const auto all = labels_of(data, pass);
    EXPECT_EQ(seen, (std::vector<std::int32_t>{all.begin() + 8, all.end()}));
  }
  EXPECT_EQ(labels_of(divided_batches(batches)), labels_of(data, 0));
}

TEST(DistributedDataset, UnbatchedExamplesAreRejected) {
  EXPECT_THROW((void)divided_batches(replicas_in_turn(2).distribute(range(4))),
               std::logic_error);
}

TEST(DistributedDataset, EmptyPartsAreValidArguments) {
  const auto two = replicas_in_turn(2);
  const auto steps = two.distribute(range(1).batch(2));
  for (const auto& step : steps) {
    const auto sums = two.run(
      [](const batch& mine) {
        float sum = 0;
        for (const auto x : mine.inputs.data<float>())
          sum += (x + 5) * (x + 5);
        return sum;
      },
      step);
    EXPECT_EQ(sums.values(), (std::vector<float>{25, 0}));
  }
}

} // namespace
