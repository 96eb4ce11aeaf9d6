#include "troupe/tensors/tape.hpp"
#include "troupe/tests/data/counted.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>

namespace troupe::data {
namespace {

using namespace testing;

std::vector<int> sorted(std::vector<int> x) {
  std::ranges::sort(x);
  return x;
}

std::vector<int> first(int n) {
  std::vector<int> out(static_cast<std::size_t>(n));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

TEST(Dataset, AFunctionOfMapCannotWriteAnElementThatOthersShare) {
  const auto add_1 = [](const batch& x) {
    auto out = x;
    out.inputs.mutable_data<float>()[0] += 1;
    return out;
  };
  const auto rows = [] {
    return dataset{tensor::zeros({4, 2}), tensor::zeros({4}, dtype::int32)};
  };
  const auto captured = tensor::zeros({2});
  const dataset generated{4, 0, [captured](std::uint64_t) {
                            return batch{captured, tensor::zeros({1})};
                          }};
  for (const auto& x :
       {rows().map(add_1), rows().batch(2).map(add_1), generated.map(add_1)})
    EXPECT_NE(complaint([&] { x.iterate().next(); }).find("is read-only"),
              std::string::npos);
  // A shuffled batch has elements of its own.
  const auto shuffled = rows().shuffle(whole_dataset, 1).batch(2).map(add_1);
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch)
    EXPECT_EQ(shuffled.iterate({epoch, 0}).next()->inputs.data<float>()[0], 1);
  const auto cloned = rows().batch(2).map([&](const batch& x) {
    auto out = x;
    out.inputs = x.inputs.clone();
    return add_1(out);
  });
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch)
    EXPECT_EQ(cloned.iterate({epoch, 0}).next()->inputs.data<float>()[0], 1);
}

TEST(Dataset, YieldsItsExamplesInOrder) {
  const auto x = counted(3);
  EXPECT_EQ(all_names(x), (lists{{0}, {1}, {2}}));
  EXPECT_EQ(x.size(), 3u);
  EXPECT_EQ(x.classes(), 3);
  EXPECT_EQ(x.element(), (tensor_spec{{2}, dtype::float32}));
}

TEST(Dataset, KeepsTheLastSmallBatchByDefault) {
  const auto x = counted(5).batch(2);
  EXPECT_EQ(all_names(x), (lists{{0, 1}, {2, 3}, {4}}));
  EXPECT_EQ(x.size(), 3u);
  EXPECT_EQ(x.element(), (tensor_spec{{2, 2}, dtype::float32}));
  const auto dropped = counted(5).batch(2, true);
  EXPECT_EQ(all_names(dropped), (lists{{0, 1}, {2, 3}}));
  EXPECT_EQ(dropped.size(), 2u);
  EXPECT_EQ(all_names(counted(4).batch(2)),
            all_names(counted(4).batch(2, true)));
}

TEST(Dataset, BatchesOfBatchesAddAnAxis) {
  const auto x = counted(4).batch(2).batch(2);
  EXPECT_EQ(x.element(), (tensor_spec{{2, 2, 2}, dtype::float32}));
  EXPECT_EQ(all_names(x), (lists{{0, 1, 2, 3}}));
  EXPECT_THROW(all_names(counted(3).batch(2).batch(2)), std::invalid_argument);
}

TEST(Dataset, AdjacentExamplesAreNotCopied) {
  const auto inputs = tensor::zeros({4, 2});
  const auto labels = tensor::zeros({4}, dtype::int32);
  auto each = dataset{inputs, labels}.batch(2).iterate();
  for (const auto& x : each)
    EXPECT_TRUE(x.inputs.shares_storage_with(inputs));
  auto mixed =
    dataset{inputs, labels}.shuffle(whole_dataset, 3).batch(4).iterate();
  EXPECT_FALSE(mixed.next()->inputs.shares_storage_with(inputs));
}

TEST(Dataset, MapsExamplesBeforeBatchAndBatchesAfter) {
  std::vector<std::size_t> ranks;
  const auto plus_three = [&](const batch& x) {
    ranks.push_back(x.inputs.dims().rank());
    auto out = batch{x.inputs.clone(), x.labels};
    for (std::size_t i = 0; i < out.inputs.size(); ++i)
      out.inputs.mutable_data<float>()[i] += i % 2 ? -3 : 3;
    return out;
  };
  const lists wanted{{3, 4}, {5}};
  EXPECT_EQ(all_names(counted(3).map(plus_three).batch(2)), wanted);
  EXPECT_EQ(ranks, (std::vector<std::size_t>{1, 1, 1}));
  ranks.clear();
  EXPECT_EQ(all_names(counted(3).batch(2).map(plus_three)), wanted);
  EXPECT_EQ(ranks, (std::vector<std::size_t>{2, 2}));
}

TEST(Dataset, RejectsBatchesOfUnequalElements) {
  const auto x = counted(3).map([](const batch& x) {
    const auto n = 1 + std::int64_t(x.inputs.data<float>()[0]) / 2;
    return batch{tensor::zeros({n}), x.labels};
  });
  EXPECT_EQ(complaint([&] { all_names(x.batch(3)); }),
            "elements of float32[1] and float32[2] cannot be in one batch: "
            "make them equal in map");
}

TEST(Dataset, TakesAndSkipsExamplesOrBatches) {
  EXPECT_EQ(all_names(counted(5).take(2)), (lists{{0}, {1}}));
  EXPECT_EQ(all_names(counted(5).skip(3)), (lists{{3}, {4}}));
  EXPECT_EQ(all_names(counted(5).skip(1).take(3).skip(1)), (lists{{2}, {3}}));
  EXPECT_EQ(all_names(counted(5).batch(2).skip(1)), (lists{{2, 3}, {4}}));
  EXPECT_EQ(counted(5).take(9).size(), 5u);
  EXPECT_EQ(counted(5).skip(9).size(), 0u);
  EXPECT_EQ(all_names(counted(5).skip(9)), lists{});
  EXPECT_EQ(counted(5).skip(2).take(whole_dataset).size(), 3u);
}

TEST(Dataset, BatchesSpanEpochsAfterRepeat) {
  EXPECT_EQ(all_names(counted(3).repeat(2).batch(2)),
            (lists{{0, 1}, {2, 0}, {1, 2}}));
  EXPECT_EQ(all_names(counted(3).batch(2).repeat(2)),
            (lists{{0, 1}, {2}, {0, 1}, {2}}));
  EXPECT_EQ(counted(3).repeat(0).size(), 0u);
  EXPECT_EQ(counted(0).repeat().size(), 0u);
}

TEST(Dataset, RepeatIsEndlessWithoutANumber) {
  const auto x = counted(3).repeat();
  EXPECT_EQ(x.size(), std::nullopt);
  auto each = x.iterate({0, 3'000'000'001});
  EXPECT_EQ(rest(each, 3), (lists{{1}, {2}, {0}}));
  EXPECT_EQ(all_names(x.take(4)), (lists{{0}, {1}, {2}, {0}}));
  EXPECT_EQ(x.batch(2, true).size(), std::nullopt);
}

TEST(Dataset, EveryOrderIsEquallyLikely) {
  std::map<std::vector<int>, int> seen;
  const auto x = counted(4).shuffle(whole_dataset, 1);
  for (std::uint64_t pass = 0; pass < 24'000; ++pass)
    ++seen[flat(all_names(x, pass))];
  ASSERT_EQ(seen.size(), 24u); // 4!
  double chi_squared = 0;      // 23 degrees of freedom
  for (const auto& [order, count] : seen)
    chi_squared += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi_squared, 49.7); // 1 of 1,000 seeds exceeds this.
}

TEST(Dataset, ShuffleIsAPermutationThatDependsOnEpochAndSeed) {
  std::set<std::vector<int>> orders;
  for (std::uint64_t seed = 0; seed < 4; ++seed)
    for (std::uint64_t pass = 0; pass < 4; ++pass) {
      const auto order =
        flat(all_names(counted(100).shuffle(whole_dataset, seed), pass));
      EXPECT_EQ(sorted(order), first(100)) << "seed " << seed;
      orders.insert(order);
    }
  EXPECT_EQ(orders.size(), 16u);
}

TEST(Dataset, ShuffleCanKeepOneOrderForAllEpochs) {
  const auto x = counted(100).shuffle(whole_dataset, 7, false);
  EXPECT_EQ(all_names(x, 0), all_names(x, 5));
  EXPECT_NE(all_names(x), all_names(counted(100)));
}

TEST(Dataset, ShuffleStaysWithinBlocks) {
  const auto order = flat(all_names(counted(10).shuffle(4, 1)));
  for (int begin = 0; begin < 10; begin += 4)
    for (int i = begin; i < std::min(begin + 4, 10); ++i)
      EXPECT_EQ(order[std::size_t(i)] / 4, begin / 4);
  EXPECT_EQ(sorted(order), first(10));
  EXPECT_NE(order, first(10));
  EXPECT_EQ(flat(all_names(counted(10).shuffle(1, 1))), first(10));
  EXPECT_EQ(counted(10).repeat().shuffle(4, 1).size(), std::nullopt);
}

TEST(Dataset, RepeatedEpochsAreShuffledDifferently) {
  const auto x = counted(50).shuffle(whole_dataset, 2);
  const auto twice = flat(all_names(x.repeat(2), 3));
  const auto half = twice.begin() + 50;
  EXPECT_EQ(std::vector(twice.begin(), half), flat(all_names(x, 6)));
  EXPECT_EQ(std::vector(half, twice.end()), flat(all_names(x, 7)));
}

TEST(Dataset, SplitIsAPartition) {
  auto [train, test] = counted(10).split(0.8);
  EXPECT_EQ(flat(all_names(train)), first(8));
  EXPECT_EQ(all_names(test), (lists{{8}, {9}}));
  EXPECT_EQ(counted(100).split(0.29).train.size(), 29u);
  auto mixed = counted(10).shuffle(whole_dataset, 1, false).split(0.5);
  auto both = flat(all_names(mixed.train, 1));
  std::ranges::copy(flat(all_names(mixed.test, 2)), std::back_inserter(both));
  EXPECT_EQ(sorted(both), first(10));
}

TEST(Dataset, RejectsASplitThatWouldLeak) {
  EXPECT_EQ(complaint([] { counted(10).shuffle().split(0.5); }),
            "split after a shuffle that differs per epoch mixes the two parts: "
            "split first, or shuffle with each_epoch = false");
  EXPECT_THROW(counted(10).repeat().split(0.5), std::invalid_argument);
  for (const double x : {0.0, 1.0, -1.0, double(NAN)})
    EXPECT_THROW(counted(10).split(x), std::invalid_argument);
}

TEST(Dataset, ReadsARangeOfExamples) {
  EXPECT_EQ(names(counted(9).examples(2, 5)), (std::vector{2, 3, 4}));
  EXPECT_THROW(counted(9).examples(2, 10), std::invalid_argument);
  EXPECT_THROW(counted(9).examples(2, 2), std::invalid_argument);
}

TEST(Dataset, ReadsGeneratedElements) {
  const dataset x{5, 3, [](std::uint64_t i) {
                    const auto n = float(i);
                    return batch{tensor::of<float>({2}, {n, -n}),
                                 tensor::full({}, double(i % 3), dtype::int32)};
                  }};
  EXPECT_EQ(all_names(x.batch(2)), all_names(counted(5).batch(2)));
  EXPECT_EQ(sorted(flat(all_names(x.shuffle()))), first(5));
}

TEST(Dataset, KeepsOtherDtypes) {
  const auto pixels = tensor::of<std::uint8_t>({3, 1}, {7, 255, 0});
  const auto labels = tensor::of<std::int32_t>({3}, {0, 4, 1});
  const dataset x{pixels, labels};
  EXPECT_EQ(x.classes(), 5);
  const auto one = x.shuffle().batch(3).iterate().next();
  EXPECT_EQ(one->inputs.type(), dtype::uint8);
}

TEST(Dataset, RejectsTensorsThatDoNotMatch) {
  const auto x = tensor::zeros({3, 2});
  const auto y = tensor::zeros({3}, dtype::int32);
  EXPECT_EQ(complaint([&] { dataset(x, y.slice(0, 2)); }),
            "a dataset was given inputs float32[3, 2] and labels int32[2]: all "
            "tensors of a batch have the same number of rows");
  EXPECT_THROW(dataset(x, tensor::zeros({2})), std::invalid_argument);
  EXPECT_EQ(complaint([&] { dataset(x, tensor::zeros({3}), 2); }),
            "2 classes of labels float32[3]: class numbers are int32[n]; leave "
            "the number out for other labels");
  EXPECT_THROW(dataset(tensor{}, y), std::invalid_argument);
  const auto bad = tensor::of<std::int32_t>({3}, {0, 3, 1});
  EXPECT_EQ(complaint([&] { dataset(x, bad, 3); }),
            "label 3 of example 1 is not in [0, 3): number the classes from 0 "
            "on");
  EXPECT_THROW(dataset(x, tensor::full({3}, -1, dtype::int32)),
               std::invalid_argument);
  EXPECT_THROW(dataset(x, y, -1), std::invalid_argument);
}

/// Makes n examples: example i has the inputs [i], the labels [i, i + 0.5] as
/// float64, the weight 2 i and the id i.
dataset named(std::int64_t n) {
  batch rows{tensor{{n, 1}}, tensor{{n, 2}, dtype::float64}};
  rows.others.push_back({"weights", tensor{{n}}});
  rows.others.push_back({"id", tensor{{n}, dtype::int64}});
  for (std::int64_t i = 0; i < n; ++i) {
    const auto at = std::size_t(i);
    rows.inputs.mutable_data<float>()[at] = float(i);
    rows.labels.mutable_data<double>()[2 * at] = double(i);
    rows.labels.mutable_data<double>()[2 * at + 1] = double(i) + 0.5;
    rows.others[0].value.mutable_data<float>()[at] = float(2 * i);
    rows.others[1].value.mutable_data<std::int64_t>()[at] = i;
  }
  return dataset::of(rows);
}

/// Returns the ids of a batch of `named`. -1: the tensors are not those of one
/// example.
std::vector<int> ids(const batch& x) {
  std::vector<int> out;
  for (std::size_t i = 0; i < std::size_t(x.rows()); ++i) {
    const auto id = x["id"].data<std::int64_t>()[i];
    const auto value = double(id);
    const bool whole = x["inputs"].data<float>()[i] == float(id)
                       && x["labels"].data<double>()[2 * i] == value
                       && x["labels"].data<double>()[2 * i + 1] == value + 0.5
                       && x["weights"].data<float>()[i] == float(2 * id);
    out.push_back(whole ? int(id) : -1);
  }
  return out;
}

TEST(Dataset, EveryStageKeepsAllTensorsOfAnExampleTogether) {
  const auto read = [](const dataset& x) {
    std::vector<int> out;
    auto each = x.iterate();
    for (const auto& one : each)
      for (const auto id : ids(one))
        out.push_back(id);
    return out;
  };
  EXPECT_EQ(read(named(5).batch(2)), first(5));
  EXPECT_EQ(sorted(read(named(5).shuffle().batch(2).prefetch(2))), first(5));
  EXPECT_EQ(read(named(9).skip(1).take(3).repeat(2).batch(4)),
            (std::vector{1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(read(named(5).batch(4).shard(1, 2, 2)), (std::vector{2, 3}));
  const auto keep = [](const batch& x) { return x; };
  EXPECT_EQ(read(named(5).map(keep).batch(3).map(keep).shard(0, 1, 2)),
            (std::vector{0, 1, 3}));
  EXPECT_EQ(ids(named(5).examples(1, 4)), (std::vector{1, 2, 3}));
  EXPECT_EQ(named(1).batch(1).shard(1, 2, 2).iterate().next()->rows(), 0);
}

TEST(Dataset, DeclaresTheTensorsOfItsElements) {
  const auto x = named(5);
  EXPECT_EQ(x.classes(), 0);
  EXPECT_EQ(x.batch(2).spec(),
            (std::vector<named_spec>{{"inputs", {{2, 1}, dtype::float32}},
                                     {"labels", {{2, 2}, dtype::float64}},
                                     {"weights", {{2}, dtype::float32}},
                                     {"id", {{2}, dtype::int64}}}));
  const auto one = *x.iterate().next();
  EXPECT_FALSE(is_batch(one));
  EXPECT_EQ(one["weights"].dims(), shape{});
  EXPECT_EQ(one.find("weight"), nullptr);
  EXPECT_EQ(complaint([&] { one["weight"]; }),
            "a batch has no tensor \"weight\": it has inputs, labels, weights, "
            "id");
}

TEST(Dataset, LabelsMayBeAbsentOrValues) {
  const auto inputs = tensor::zeros({3, 2});
  const dataset unlabelled{inputs, tensor{}};
  EXPECT_EQ(unlabelled.classes(), 0);
  EXPECT_FALSE(unlabelled.shuffle().batch(2).iterate().next()->labels);
  const dataset values{inputs, tensor::zeros({3}, dtype::float64)};
  EXPECT_EQ(values.classes(), 0);
  const auto last = values.batch(2).examples(1, 2);
  EXPECT_EQ(last.labels.dims(), (shape{1, 1}));
}

TEST(Dataset, RejectsTensorsOfDifferentRows) {
  auto rows = batch{tensor::zeros({3, 2}), tensor::zeros({3})};
  rows.others.push_back({"weights", tensor::zeros({2})});
  EXPECT_EQ(
    complaint([&] { dataset::of(rows); }),
    "a dataset was given inputs float32[3, 2] and labels float32[3] and "
    "weights float32[2]: all tensors of a batch have the same number of "
    "rows");
  EXPECT_THROW(dataset::of(batch{}), std::invalid_argument);
  const auto cut = named(4).batch(2).map([](const batch& x) {
    auto out = x;
    out.labels = x.labels.slice(0, 1);
    return out;
  });
  EXPECT_THROW(cut.iterate().next(), std::invalid_argument);
  const auto renamed = named(4).map([](const batch& x) {
    auto out = x;
    if (x["id"].item<std::int64_t>() == 1)
      out.others.pop_back();
    return out;
  });
  EXPECT_EQ(complaint([&] { renamed.batch(2).iterate().next(); }),
            "elements with the tensors inputs, labels, weights, id and inputs, "
            "labels, weights cannot be in one batch: make them equal in map");
}

TEST(Dataset, RejectsNamesThatTwoTensorsHave) {
  const auto rejected = [](const std::vector<std::string>& names) {
    batch rows;
    rows.inputs = tensor::zeros({2, 1});
    for (const auto& name : names)
      rows.others.push_back({name, tensor::zeros({2})});
    try {
      dataset::of(rows);
    } catch (const std::invalid_argument& e) {
      return std::string{e.what()};
    }
    return std::string{"no error"};
  };
  for (const std::string name : {"inputs", "labels"})
    EXPECT_EQ(rejected({"weights", name}),
              "the tensor \"" + name
                + "\" in `others`: this is the name of a member of a batch; "
                  "give another name");
  EXPECT_EQ(rejected({"id", "weights", "id"}),
            "two tensors in `others` have the name \"id\"; give each tensor "
            "its own name");
  EXPECT_EQ(rejected({"id", "weights"}), "no error");
}

TEST(Dataset, AFunctionTellsBatchesFromExamplesByTheirGlobalRows) {
  const auto rows_of = [](std::int64_t global_rows) {
    return dataset{
      2, 0, [=](std::uint64_t) {
        return batch{tensor::zeros({4, 2}), tensor::zeros({4}), global_rows};
      }};
  };
  EXPECT_EQ(rows_of(4).iterate().next()->global_rows, 4);
  EXPECT_EQ(rows_of(4).shard(0, 1, 2).iterate().next()->rows(), 2);
  EXPECT_EQ(rows_of(0).iterate().next()->global_rows, 0);
  EXPECT_THROW(rows_of(0).shard(0, 1, 2).iterate().next(), std::logic_error);
  EXPECT_EQ(rows_of(0).batch(2).iterate().next()->labels.dims(), (shape{2, 4}));
}

TEST(Dataset, RejectsElementsThatATapeRecords) {
  const auto x = counted(4);
  tape t;
  const auto recorded = t.watch(tensor::zeros({2}));
  const auto scaled = x.map([&](const batch& one) {
    return batch{recorded, one.labels};
  });
  EXPECT_EQ(complaint([&] { all_names(scaled.batch(2)); }),
            "the function of map gave float32[2], which a tape records; a "
            "dataset would lose its gradient: pass its detach()");
  EXPECT_THROW(all_names(scaled), std::logic_error);
  const auto labels = tensor::zeros({2}, dtype::int32);
  EXPECT_THROW(dataset(recorded, labels), std::logic_error);
  EXPECT_THROW(all_names(dataset{2, 1,
                                 [&](std::uint64_t) {
                                   return batch{recorded, labels.slice(0, 1)};
                                 }}),
               std::logic_error);
  const dataset plain{recorded.detach(), labels};
  EXPECT_EQ(plain.shuffle().batch(2).iterate().next()->inputs.size(), 2u);
}

TEST(Dataset, BatchesHaveTheirGlobalRows) {
  const auto rows = [](const dataset& x) {
    std::vector<std::int64_t> out;
    auto each = x.iterate();
    for (const auto& one : each)
      out.push_back(one.global_rows);
    return out;
  };
  using list = std::vector<std::int64_t>;
  const auto x = counted(5).batch(2);
  const auto keep = [](const batch& one) {
    return batch{one.inputs, one.labels};
  };
  const auto halve = [](const batch& one) {
    auto out = one;
    out.inputs = one.inputs.slice(0, 1);
    out.labels = one.labels.slice(0, 1);
    return out;
  };
  EXPECT_EQ(rows(x), (list{2, 2, 1}));
  EXPECT_EQ(rows(x.prefetch(2)), (list{2, 2, 1}));
  EXPECT_EQ(rows(x.map(keep)), (list{2, 2, 1}));
  EXPECT_EQ(rows(x.map(halve)), (list{1, 1, 1}));
  EXPECT_EQ(rows(x.shard(1, 2, 2)),
            (list{2, 2, 1})); // Rows of the global batch.
  EXPECT_EQ(rows(x.map(keep).shard(1, 2, 2)), (list{2, 2, 1}));
  EXPECT_EQ(rows(x.shard(1, 2, 2).map(keep)), (list{2, 2, 1}));
  EXPECT_EQ(rows(counted(2)), (list{0, 0})); // Single examples.
  EXPECT_EQ(counted(5).examples(1, 4).global_rows, 3);
}

TEST(Dataset, RejectsInvalidOptions) {
  EXPECT_THROW(counted(3).batch(0), std::invalid_argument);
  EXPECT_THROW(counted(3).shuffle(0), std::invalid_argument);
  EXPECT_THROW(counted(3).repeat().shuffle(), std::invalid_argument);
  EXPECT_THROW(counted(3).map(nullptr), std::invalid_argument);
  EXPECT_THROW(counted(0).element(), std::invalid_argument);
}

TEST(Dataset, AnEmptyDatasetHasNoElement) {
  EXPECT_EQ(all_names(counted(0).shuffle().batch(3).prefetch(2)), lists{});
  EXPECT_EQ(counted(0).batch(3).size(), 0u);
}

} // namespace
} // namespace troupe::data
