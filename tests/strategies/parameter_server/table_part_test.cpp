#include "troupe/strategies/parameter_server/table_image.hpp"
#include "troupe/strategies/parameter_server/table_part.hpp"
#include "troupe/tests/strategies/parameter_server/floats.hpp"

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::parameter_server {
namespace {

using kind = part_change::kind;

/// Returns the rows of a table of ones.
table_rules ones(std::uint32_t min_touches = 1,
                 std::uint32_t max_idle_changes = 0) {
  return {.initial = initializer{"ones"},
          .min_touches = min_touches,
          .max_idle_changes = max_idle_changes};
}

const std::vector<update_rule>& rules() {
  static const std::vector<update_rule> all{
    sgd{.learning_rate = 0.1f},
    sgd{.learning_rate = 0.1f, .momentum = 0.9f},
    sgd{.learning_rate = 0.1f, .momentum = 0.9f, .nesterov = true},
    adam{.learning_rate = 0.01f},
    adamw{.learning_rate = 0.01f},
    adagrad{.learning_rate = 0.1f},
    ftrl{.learning_rate = 0.1f}};
  return all;
}

/// A dense part with the same initial values is the oracle.
TEST(TablePart, HasTheBitsOfADensePart) {
  const shape whole{40, 3};
  const row_range range{10, 30};
  const table_rules begin{.initial = initializer{"normal"},
                          .key = initial_key(5, 2)};
  std::vector<float> all(whole.elements());
  begin.initial.fill(all, whole, begin.key);
  const auto initial = tensor::of<float>(whole, all).slice(10, 30);
  for (const auto& rule : rules()) {
    SCOPED_TRACE(rule.name());
    stored_part dense{initial.clone()};
    table_part table{whole, range, begin};
    EXPECT_TRUE(same_bits(table.value(), dense.value()));
    const std::vector<std::vector<std::int64_t>> touched{
      {19, 3, 19, 0}, {7}, {}, {0, 3, 4, 7, 3}};
    for (std::size_t i = 0; i < 8; ++i) {
      if (i == 2) {
        const part_change skipped{
          .what = kind::count_step, .optimizer = 4, .rule = rule};
        dense.apply(skipped);
        table.apply(skipped);
      }
      const auto& ids = touched[i % 4];
      tensor operand{{shape{std::int64_t(ids.size()), 3}, dtype::float32}};
      float next = 0.25f * float(i + 1);
      for (auto& x : operand.mutable_data<float>())
        x = next = 0.7f - next;
      const part_change change{.what = i == 5 ? kind::add : kind::gradient,
                               .rows = rows_of({20, 3}, ids, operand),
                               .optimizer = 4,
                               .rule = rule,
                               .scale = 0.5f};
      dense.apply(change);
      table.apply(change);
      EXPECT_TRUE(same_bits(table.value(), dense.value()));
    }
    EXPECT_EQ(table.size(), 5u);
    EXPECT_EQ(table.steps(4), dense.steps(4));
    EXPECT_EQ(table.version(), dense.version());
    for (std::uint32_t slot = 0; slot < rule.slots(); ++slot)
      EXPECT_TRUE(
        same_bits(table.slot(4, rule, slot), dense.slot(4, rule, slot)));
  }
}

TEST(TablePart, ReadsMakeNoRow) {
  table_part table{{1'000'000'000, 2}, {500'000'000, 1'000'000'000}, ones()};
  const auto before = table.bytes();
  const std::vector<std::int64_t> some{499'999'999, 0, 499'999'999};
  EXPECT_EQ(values(table.rows(some)), std::vector<float>(6, 1));
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(table.bytes(), before);
  for (const std::int64_t row : {-1, 500'000'000})
    EXPECT_THROW(table.rows(std::vector{row}), std::invalid_argument);
}

/// Two parts have the rows that one part has, whatever their order.
TEST(TablePart, DoesNotDependOnTheOrderOfTouchesOrTheNumberOfParts) {
  const shape whole{10, 4};
  const table_rules begin{.key = initial_key(3, 0)};
  table_part one{whole, {0, 10}, begin}, low{whole, {0, 5}, begin},
    high{whole, {5, 10}, begin};
  const auto add = [&](table_part& to, std::vector<std::int64_t> ids,
                       std::int64_t count) {
    const auto n = std::int64_t(ids.size());
    to.apply({.what = kind::add,
              .rows = rows_of({count, 4}, ids, tensor::full({n, 4}, 0.5))});
  };
  add(one, {0, 9, 4, 5}, 10);
  add(low, {4}, 5);
  add(low, {0}, 5);
  add(high, {0, 4}, 5);
  EXPECT_TRUE(same_bits(one.value().slice(0, 5), low.value()));
  EXPECT_TRUE(same_bits(one.value().slice(5, 10), high.value()));
  EXPECT_FALSE(same_bits(low.value().slice(1, 2), low.value().slice(2, 3)));
}

TEST(TablePart, KeepsARowFromTheWantedNumberOfGradientsOn) {
  const shape dims{8, 1};
  table_part table{dims, {0, 8}, ones(3)};
  const part_change gradient{
    .what = kind::gradient,
    .rows = rows_of(dims, {2, 5, 2}, floats({3, 1}, {1, 1, 1})),
    .rule = sgd{.learning_rate = 0.25f}};
  for (int i = 0; i < 2; ++i) {
    table.apply(gradient);
    EXPECT_EQ(table.size(), 0u);
    EXPECT_EQ(values(table.value()), std::vector<float>(8, 1));
  }
  table.apply(gradient);
  EXPECT_EQ(table.size(), 2u);
  EXPECT_EQ(values(table.value()),
            (std::vector<float>{1, 1, 0.5f, 1, 1, 0.75f, 1, 1}));
  EXPECT_EQ(table.steps(0), 3u); // also those that changed no row
  std::vector<tensor> beside;
  static_cast<void>(table.save(beside));
  EXPECT_EQ(beside.at(2).size(), 0u); // rows that are not yet kept
  table.apply(
    {.what = kind::assign, .rows = rows_of(dims, {7}, floats({1, 1}, {4}))});
  EXPECT_EQ(table.size(), 3u); // at once
}

TEST(TablePart, DropsARowThatIsInNoChangeForTooLong) {
  const shape dims{100, 1};
  const update_rule rule = sgd{.learning_rate = 1, .momentum = 0.5f};
  table_part table{dims, {0, 100}, ones(1, 4)};
  const auto touch = [&](std::int64_t row) {
    table.apply({.what = kind::gradient,
                 .rows = rows_of(dims, {row}, floats({1, 1}, {1})),
                 .rule = rule});
  };
  const auto row = [&](std::int64_t i) {
    return table.rows(std::vector{i}).item<float>();
  };
  touch(7);
  for (int i = 0; i < 3; ++i)
    touch(8);
  EXPECT_EQ(row(7), 0);
  touch(8);
  EXPECT_EQ(row(7), 1); // its initial value
  touch(7);
  EXPECT_EQ(row(7), 0); // without the velocity that it had
  for (std::int64_t i = 0; i < 90; ++i)
    touch(i);
  EXPECT_LE(table.size(), 8u); // idle rows are looked for in each change
}

TEST(TablePart, ASnapshotLacksIdleRows) {
  const shape dims{400, 1};
  table_part table{dims, {0, 400}, ones(1, 4)};
  const auto touch = [&](const std::vector<std::int64_t>& rows) {
    const auto n = std::int64_t(rows.size());
    table.apply({.what = kind::add,
                 .rows = rows_of(dims, rows, tensor::full({n, 1}, 1))});
  };
  std::vector<std::int64_t> all;
  for (std::int64_t row = 0; row < 400; ++row)
    all.push_back(row);
  touch(all);
  for (int i = 0; i < 4; ++i)
    touch({7});
  EXPECT_GT(table.size(), 100u); // few idle rows are removed in a change
  std::vector<tensor> beside;
  static_cast<void>(table.save(beside));
  EXPECT_EQ(beside.at(0).size(), 1u);
}

TEST(TablePart, NeedsTheMemoryOfItsRowsAndLittleMore) {
  const shape dims{1'000'000, 16};
  for (const auto& rule : rules()) {
    SCOPED_TRACE(rule.name());
    table_part table{dims, {0, 1'000'000}, {}};
    for (std::int64_t i = 0; i < 10; ++i) {
      std::vector<std::int64_t> ids;
      for (std::int64_t k = 0; k < 1'000; ++k)
        ids.push_back((i * 1'000 + k) * 7919 % 1'000'000);
      const part_change change{
        .what = kind::gradient,
        .rows = rows_of(dims, ids, tensor::full({1'000, 16}, 1)),
        .rule = rule};
      const auto expected = table.bytes() + table.growth(change);
      table.apply(change);
      EXPECT_NEAR(double(table.bytes()), double(expected),
                  0.01 * double(expected) + 2'000);
    }
    EXPECT_EQ(table.size(), 10'000u);
    const auto needed = 10'000 * 64 * (1 + rule.slots());
    EXPECT_GE(table.bytes(), needed);
    EXPECT_LE(double(table.bytes()), 1.1 * double(needed));
  }
}

TEST(TablePart, AChangeOfAllElementsMakesTheRowsThatDiffer) {
  const shape dims{4, 1};
  const update_rule rule = adagrad{};
  table_part table{dims, {0, 4}, ones()};
  table.apply({.all = floats(dims, {1, 5, 1, 6})});
  EXPECT_EQ(table.size(), 2u);
  EXPECT_EQ(values(table.value()), (std::vector<float>{1, 5, 1, 6}));
  const auto begin = rule.initial_slot_value(0);
  table.apply({.what = kind::restore_slot,
               .all = floats(dims, {begin, begin, 9, begin}),
               .rule = rule});
  EXPECT_EQ(table.size(), 3u);
  EXPECT_EQ(values(table.slot(0, rule, 0)),
            (std::vector<float>{begin, begin, 9, begin}));
  EXPECT_EQ(values(table.value()), (std::vector<float>{1, 5, 1, 6}));
  table.apply({.what = kind::assign, .all = floats(dims, {1, 1, 1, 1})});
  EXPECT_EQ(values(table.value()), (std::vector<float>{1, 1, 1, 1}));
}

TEST(TablePart, AddsTheContributionsToAStepInTreeOrder) {
  const shape dims{4, 1};
  table_part table{dims, {0, 4}, {.initial = initializer{"zeros"}}};
  // As in the test of a dense part; replica 5 lacks row 1.
  for (const std::uint32_t replica : {4u, 2u, 0u, 3u, 1u})
    table.apply(
      {.what = kind::contribute,
       .rows = rows_of(
         dims, {1},
         floats({1, 1}, {std::vector<float>{1e8F, 1, -1e8F, 1, 3}[replica]})),
       .step = 7,
       .replica = replica});
  table.apply({.what = kind::contribute,
               .rows = rows_of(dims, {3, 3}, floats({2, 1}, {1, 1})),
               .step = 7,
               .replica = 5});
  EXPECT_EQ(table.size(), 0u);
  const part_change step{.what = kind::apply_contributions,
                         .rule = sgd{.learning_rate = 1},
                         .step = 7,
                         .contributors = {0, 1, 2, 3, 4, 5}};
  table.apply(step);
  EXPECT_EQ(values(table.value()), (std::vector<float>{0, -3, 0, -2}));
  table.apply(step); // repeated
  EXPECT_EQ(values(table.value()), (std::vector<float>{0, -3, 0, -2}));
  EXPECT_EQ(table.steps(0), 1u);
  EXPECT_THROW(table.check({.what = kind::apply_contributions,
                            .rule = sgd{},
                            .step = 8,
                            .contributors = {0}}),
               std::invalid_argument);
}

TEST(TablePart, GoesOnAsASnapshotOfIt) {
  const shape dims{6, 2};
  const auto begin = ones(2, 5);
  const update_rule rule = adam{.learning_rate = 0.1F};
  table_part original{dims, {0, 6}, begin};
  const auto contribute = [&](table_part& to, std::uint64_t step) {
    to.apply({.what = kind::contribute,
              .rows = rows_of(dims, {1, 4}, floats({2, 2}, {1, 2, 3, 4})),
              .step = step,
              .replica = 7});
  };
  const auto apply = [&](table_part& to, std::uint64_t step) {
    to.apply({.what = kind::apply_contributions,
              .optimizer = 3,
              .rule = rule,
              .step = step,
              .contributors = {7}});
  };
  for (std::uint64_t step = 0; step < 3; ++step)
    contribute(original, step);
  apply(original, 0);
  std::vector<tensor> beside;
  const auto image = original.save(beside);
  const auto restored_from = [&](const table_image& from,
                                 const std::vector<tensor>& some) {
    std::span<const tensor> left{some};
    auto made =
      table_part::restore(table_part{dims, {0, 6}, begin}, from, left);
    EXPECT_TRUE(left.empty());
    return made;
  };
  auto restored = restored_from(image, beside);
  for (auto* one : {&original, &restored}) {
    apply(*one, 0); // repeated
    apply(*one, 1); // the second gradient: rows 1 and 4 are kept
    EXPECT_EQ(one->size(), 2u);
    apply(*one, 2);
  }
  EXPECT_TRUE(same_bits(restored.value(), original.value()));
  EXPECT_EQ(restored.bytes(), original.bytes());
  EXPECT_EQ(restored.version(), original.version());
  EXPECT_TRUE(same_bits(restored.slot(3, rule, 1), original.slot(3, rule, 1)));

  // The numbers, values and tags of no row, the numbers and tags of two
  // candidates, and the two tensors of each of two gradients.
  ASSERT_EQ(beside.size(), 9u);
  for (std::size_t i = 0; i < beside.size(); ++i) {
    auto fewer = beside;
    fewer.erase(fewer.begin() + std::ptrdiff_t(i));
    EXPECT_THROW(restored_from(image, fewer), std::invalid_argument) << i;
  }
  auto wrong = beside;
  for (const std::int64_t row : {-1, 6, 1}) {
    wrong[3] = tensor::of<std::int64_t>({2}, {1, row});
    EXPECT_THROW(restored_from(image, wrong), std::invalid_argument) << row;
  }
  auto late = image;
  late.next_step = 3; // but steps 1 and 2 wait
  EXPECT_THROW(restored_from(late, beside), std::invalid_argument);
  auto slots = image;
  slots.optimizers.at(0).first = 1;
  EXPECT_THROW(restored_from(slots, beside), std::invalid_argument);
}

std::string error_of_table(const part_change& change) {
  table_part table{{4, 2}, {0, 4}, ones()};
  try {
    table.apply(change);
  } catch (const std::invalid_argument& e) {
    EXPECT_EQ(table.size(), 0u);
    EXPECT_EQ(table.version(), 0u);
    return e.what();
  }
  return "none";
}

TEST(TablePart, RejectsWhatDoesNotFit) {
  const auto four = tensor::zeros({4, 2});
  EXPECT_EQ(
    error_of_table({.what = kind::gradient, .all = four, .rule = sgd{}}),
    "apply: needs a gradient of some rows, as the variable is a table");
  EXPECT_EQ(error_of_table({.what = kind::contribute, .all = four}),
            "contribute: needs a gradient of some rows, as the variable is a "
            "table");
  EXPECT_EQ(
    error_of_table(
      {.what = kind::add, .rows = rows_of({5, 2}, {4}, tensor::zeros({1, 2}))}),
    "assign_add: the table is float32[4, 2], the value float32[5, 2]");
  EXPECT_EQ(error_of_table({}),
            "assign: needs a value for all elements or for some rows");
  EXPECT_EQ(
    error_of_table({.what = kind::gradient,
                    .rows = rows_of({4, 2}, {3}, tensor::zeros({1, 2}))}),
    "apply: needs an update rule");
  EXPECT_THROW((table_part{{}, {0, 1}, ones()}), std::invalid_argument);
  EXPECT_THROW((table_part{{3, 0}, {0, 1}, ones()}), std::invalid_argument);
  const auto longest = std::int64_t(max_row_elements);
  EXPECT_EQ((table_part{{3, longest}, {0, 3}, ones()}).size(), 0u);
  EXPECT_THROW((table_part{{3, longest + 1}, {0, 3}, ones()}),
               std::invalid_argument);
  EXPECT_THROW((table_part{{3, 1}, {2, 4}, ones()}), std::invalid_argument);
  EXPECT_THROW((table_part{{3, 1}, {0, 1}, ones(1, 1u << 31)}),
               std::invalid_argument);
  EXPECT_THROW(
    (table_part{{max_table_rows + 1, 1}, {0, max_table_rows + 1}, ones()}),
    std::invalid_argument);
}

} // namespace
} // namespace troupe::parameter_server
