#include "troupe/strategies/parameter_server/stored_part.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::parameter_server {
namespace {

using kind = part_change::kind;

tensor floats(const shape& dims, std::vector<float> xs) {
  return tensor::of<float>(dims, xs);
}

std::vector<float> values(const tensor& x) {
  const auto all = x.data<float>();
  return {all.begin(), all.end()};
}

sparse_rows rows_of(const shape& dims, std::vector<std::int64_t> ids,
                    const tensor& rows) {
  return {dims, tensor::of<std::int64_t>({std::int64_t(ids.size())}, ids),
          rows};
}

TEST(StoredPart, ChangesAllElements) {
  stored_part part{floats({3}, {1, 5, 3})};
  part.apply({.what = kind::add, .all = floats({3}, {1, 1, 2})});
  EXPECT_EQ(values(part.value()), (std::vector<float>{2, 6, 5}));
  part.apply({.what = kind::subtract, .all = floats({3}, {1, 0, 1})});
  EXPECT_EQ(values(part.value()), (std::vector<float>{1, 6, 4}));
  part.apply({.what = kind::minimum, .all = floats({3}, {2, 2, 2})});
  EXPECT_EQ(values(part.value()), (std::vector<float>{1, 2, 2}));
  part.apply({.what = kind::maximum, .all = floats({3}, {3, 1, 2})});
  EXPECT_EQ(values(part.value()), (std::vector<float>{3, 2, 2}));
  part.apply({.what = kind::assign, .all = floats({3}, {7, 8, 9})});
  EXPECT_EQ(values(part.value()), (std::vector<float>{7, 8, 9}));
  EXPECT_EQ(part.version(), 5u);
}

TEST(StoredPart, ChangesARowThatOccursTwiceTwice) {
  const shape dims{3, 2};
  stored_part part{floats(dims, {0, 0, 1, 1, 2, 2})};
  const auto operand = floats({3, 2}, {10, 20, 30, 40, 50, 60});
  part.apply({.what = kind::add, .rows = rows_of(dims, {2, 0, 2}, operand)});
  EXPECT_EQ(values(part.value()), (std::vector<float>{30, 40, 1, 1, 62, 82}));
  part.apply({.what = kind::assign, .rows = rows_of(dims, {1, 0, 1}, operand)});
  EXPECT_EQ(values(part.value()), (std::vector<float>{30, 40, 50, 60, 62, 82}));
}

TEST(StoredPart, ChangesIntegers) {
  stored_part part{tensor::full({}, 40, dtype::int64)};
  part.apply({.what = kind::add, .all = tensor::full({}, 2, dtype::int64)});
  EXPECT_EQ(part.value().item<std::int64_t>(), 42);
}

TEST(StoredPart, DoesNotChangeAValueThatAReaderHas) {
  stored_part part{floats({2}, {1, 2})};
  const auto before = part.value();
  part.apply({.what = kind::add, .all = floats({2}, {1, 1})});
  EXPECT_EQ(values(before), (std::vector<float>{1, 2}));
  EXPECT_EQ(values(part.value()), (std::vector<float>{2, 3}));
}

TEST(StoredPart, ACopyChangesApart) {
  stored_part part{floats({2}, {1, 2})};
  const part_change gradient{.what = kind::gradient,
                             .all = floats({2}, {1, 1}),
                             .rule = sgd{.learning_rate = 1, .momentum = 0.5f}};
  part.apply(gradient);
  auto copy = part;
  copy.apply(gradient);
  EXPECT_EQ(values(copy.value()), (std::vector<float>{-1.5f, -0.5f}));
  EXPECT_EQ(values(part.value()), (std::vector<float>{0, 1}));
  part.apply(gradient); // its slots are those after one step
  EXPECT_TRUE(same_bits(part.value(), copy.value()));
}

/// The rules of `update_rule` are the oracle.
TEST(StoredPart, AppliesGradientsAsTheUpdateRule) {
  const std::vector<update_rule> rules{
    sgd{.learning_rate = 0.1f}, sgd{.learning_rate = 0.1f, .momentum = 0.9f},
    adam{.learning_rate = 0.01f}, adagrad{.learning_rate = 0.1f},
    ftrl{.learning_rate = 0.1f}};
  for (const auto& rule : rules) {
    SCOPED_TRACE(rule.name());
    stored_part part{floats({2}, {0.5f, -0.25f})};
    auto expected = floats({2}, {0.5f, -0.25f});
    std::vector<tensor> slots;
    std::vector<std::span<float>> ranges;
    for (std::size_t i = 0; i < rule.slots(); ++i)
      slots.push_back(tensor::full({2}, rule.initial_slot_value(i)));
    for (auto& one : slots)
      ranges.push_back(one.mutable_data<float>());
    for (std::uint64_t step = 1; step <= 4; ++step) {
      const auto gradient = floats({2}, {0.3f * float(step), -1});
      part.apply({.what = kind::gradient, .all = gradient, .rule = rule});
      rule.apply(expected.mutable_data<float>(), gradient.data<float>(), ranges,
                 step, rule.learning_rate());
    }
    EXPECT_TRUE(same_bits(part.value(), expected));
  }
}

TEST(StoredPart, AGradientOfSomeRowsMovesThemOnly) {
  const shape dims{3, 1};
  const update_rule rule = sgd{.learning_rate = 1, .momentum = 0.5f};
  stored_part part{floats(dims, {0, 0, 0})};
  const auto all = [&](float x) {
    return part_change{
      .what = kind::gradient, .all = floats(dims, {x, x, x}), .rule = rule};
  };
  part.apply(all(1)); // v = 1
  // The parts of row 2 are added: v = 0.5 + 3.
  part.apply({.what = kind::gradient,
              .rows = rows_of(dims, {2, 0, 2}, floats({3, 1}, {1, 1, 2})),
              .rule = rule});
  EXPECT_EQ(values(part.value()), (std::vector<float>{-2.5f, -1, -4.5f}));
  part.apply(all(0)); // the velocity of row 1 is still 1
  EXPECT_EQ(values(part.value()), (std::vector<float>{-3.25f, -1.5f, -6.25f}));
}

TEST(StoredPart, EachOptimizerHasSlotsOfItsOwn) {
  const update_rule rule = sgd{.learning_rate = 1, .momentum = 0.5f};
  stored_part part{floats({1}, {0})};
  for (const std::uint32_t optimizer : {0u, 1u, 0u})
    part.apply({.what = kind::gradient,
                .all = floats({1}, {1}),
                .optimizer = optimizer,
                .rule = rule});
  EXPECT_EQ(values(part.value()), (std::vector<float>{-3.5f}));
  EXPECT_EQ(part.bytes(), 12u);
}

std::string error_of(const part_change& change) {
  stored_part part{floats({2}, {1, 2})};
  try {
    part.apply(change);
  } catch (const std::invalid_argument& e) {
    EXPECT_EQ(values(part.value()), (std::vector<float>{1, 2}));
    EXPECT_EQ(part.version(), 0u);
    return e.what();
  }
  return "none";
}

TEST(StoredPart, RejectsWhatDoesNotFit) {
  EXPECT_EQ(error_of({.what = kind::add, .all = floats({3}, {1, 2, 3})}),
            "assign_add: the variable is float32[2], the value float32[3]");
  EXPECT_EQ(error_of({.all = tensor::zeros({2}, dtype::int64)}),
            "assign: the variable is float32[2], the value int64[2]");
  EXPECT_EQ(error_of({}),
            "assign: needs a value for all elements or for some rows");
  EXPECT_EQ(error_of({.what = kind::gradient, .all = floats({2}, {1, 2})}),
            "apply: needs an update rule");
  EXPECT_THROW(stored_part{tensor::zeros({2}, dtype::boolean)},
               std::invalid_argument);
  stored_part part{floats({1}, {0})};
  part.apply({.what = kind::gradient, .all = floats({1}, {1}), .rule = adam{}});
  EXPECT_THROW(
    part.apply(
      {.what = kind::gradient, .all = floats({1}, {1}), .rule = adagrad{}}),
    std::invalid_argument);
  stored_part integers{tensor::zeros({1}, dtype::int64)};
  EXPECT_THROW(integers.check({.what = kind::gradient,
                               .all = tensor::zeros({1}, dtype::int64),
                               .rule = adam{}}),
               std::invalid_argument);
}

} // namespace
} // namespace troupe::parameter_server
