#include "troupe/actors/shard/shard_store.hpp"
#include "troupe/net/codec/codec.hpp"
#include "troupe/tests/actors/shard/row_tensors.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <random>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace troupe {
namespace {

using kind = shard_request_kind;
using change_kind = parameter_server::part_change::kind;

using test::floats;
using test::numbers;

template <class T>
std::vector<std::uint8_t> encoded(const T& x) {
  std::vector<std::uint8_t> out;
  for (const auto one : net::encode(x))
    out.push_back(static_cast<std::uint8_t>(one));
  return out;
}

template <class T>
shard_content content(kind what, const T& x, tensors operands = {}) {
  return {what, encoded(x), std::move(operands)};
}

parameter_server::command command(std::uint64_t number,
                                  std::uint64_t answered_below = 0) {
  return {{7, number}, answered_below};
}

change_list gradient_of_part() {
  return {{{.part = 4, .content = optimizer_step{.optimizer = 2}}}};
}

/// A store with a part, an optimizer, a step of it, and the effects of a
/// closure that wait.
shard_store used_store() {
  shard_store out{1};
  out.apply(command(0),
            content(kind::new_part, new_part{4, "w", {2}}, {floats({1, 2})}));
  out.apply(command(1),
            content(kind::new_optimizer,
                    new_optimizer{2, "adam", {"learning_rate"}, {0.5}}));
  out.apply(command(2),
            content(kind::change, gradient_of_part(), {floats({1, -1})}));
  out.apply(command(3),
            content(kind::store,
                    execution_effects{{9, 1, 1}, 0, gradient_of_part()},
                    {floats({3, 4})}));
  return out;
}

tensor value_of(shard_store& of) {
  auto [answer, beside] = of.read(content(kind::pull, part_pull{4, false, {}}));
  EXPECT_EQ(answer.problem, "");
  return beside.at(0);
}

struct saved_store {
  shard_image image;
  tensors beside;
};

/// Saves a store. The image is encoded and decoded, as in a message.
saved_store save(const shard_store& from) {
  saved_store out;
  EXPECT_FALSE(net::decode(net::encode(from.save(out.beside)), out.image));
  return out;
}

/// Returns why a snapshot is rejected. The store has its state then.
std::string problem_of(const saved_store& from) {
  auto made = used_store();
  const auto before = value_of(made);
  try {
    made.restore(from.image, from.beside);
  } catch (const std::logic_error& e) {
    EXPECT_TRUE(same_bits(value_of(made), before));
    return e.what();
  }
  return "none";
}

TEST(ShardStore, KeepsTheAnswersThatAClientMayNeed) {
  auto one = used_store();
  EXPECT_EQ(one.answer({7, 2}).outcome, shard_outcome::done);
  one.apply(command(5, 3), content(kind::change, change_list{}));
  EXPECT_THROW(one.answer({7, 2}), std::out_of_range);
  EXPECT_EQ(one.answer({7, 3}).outcome, shard_outcome::done);
  one.forget(7);
  EXPECT_THROW(one.answer({7, 5}), std::out_of_range);
}

TEST(ShardStore, AnswersAWrongRequestWithItsProblem) {
  auto one = used_store();
  const auto before = value_of(one);
  one.apply(command(4),
            content(kind::change, gradient_of_part(), {floats({1, 2, 3})}));
  EXPECT_EQ(one.answer({7, 4}).outcome, shard_outcome::invalid);
  EXPECT_NE(one.answer({7, 4}).problem.find("float32[3]"), std::string::npos);
  one.apply(command(5), {kind::change, {1, 2, 3}, {}});
  EXPECT_EQ(one.answer({7, 5}).problem.find("a malformed request"), 0u);
  EXPECT_TRUE(same_bits(value_of(one), before));
}

TEST(ShardStore, GoesOnWithTheSameBitsAfterASnapshot) {
  auto first = used_store();
  shard_store second{1};
  const auto saved = save(first);
  second.restore(saved.image, saved.beside);
  for (auto* one : {&first, &second}) {
    one->apply(command(4),
               content(kind::decide, coordinator::decision{{9, 1, 1}, 0}));
    one->apply(command(5),
               content(kind::change, gradient_of_part(), {floats({2, 2})}));
  }
  EXPECT_TRUE(same_bits(value_of(first), value_of(second)));
  EXPECT_FALSE(same_bits(value_of(first), saved.beside.at(0)));
  for (std::uint64_t i = 0; i < 6; ++i)
    EXPECT_EQ(first.answer({7, i}).body, second.answer({7, i}).body) << i;
  const auto table = [](shard_store& of) {
    return of.read({kind::table, {}, {}}).first.body;
  };
  EXPECT_EQ(table(first), table(second));
}

TEST(ShardStore, SaysWhatIsMissingOrImpossibleInASnapshot) {
  const auto all = save(used_store());
  ASSERT_EQ(all.beside.size(), 4u); // a value, two slots, an operand
  for (std::size_t n = 0; n < all.beside.size(); ++n) {
    auto cut = all;
    cut.beside.resize(n);
    EXPECT_NE(problem_of(cut).find("missing"), std::string::npos) << n;
  }
  const auto problem_with = [&](const std::function<void(saved_store&)>& flip) {
    auto one = all;
    flip(one);
    return problem_of(one);
  };
  const std::string begin = "the snapshot of a shard: ";
  EXPECT_EQ(problem_with([](auto& x) { x.beside.push_back(floats({1})); }),
            begin + "1 tensors are left");
  EXPECT_EQ(problem_with([](auto& x) { x.image.images.clear(); }),
            begin + "0 images of 1 parts, and 0 of 0 tables");
  EXPECT_EQ(problem_with([](auto& x) {
              x.image.parts.push_back(x.image.parts[0]);
              x.image.images.push_back(x.image.images[0]);
            }),
            begin + "part 4 occurs twice");
  EXPECT_EQ(problem_with([](auto& x) { x.image.operands.clear(); }),
            begin + "0 numbers of operands of 1 closures");
  EXPECT_EQ(problem_with([](auto& x) { x.image.effects.waiting.clear(); }),
            begin + "the effects of closures are impossible");
  EXPECT_EQ(problem_with([](auto& x) {
              x.image.optimizers[0].rule = "no rule";
            }).find("none"),
            std::string::npos);
  EXPECT_EQ(problem_with([](auto& x) { x.image.optimizers.clear(); }),
            "there is no optimizer 2");
}

// -- removal ------------------------------------------------------------------

part_pull whole(std::uint64_t part) {
  return {part, false, {}};
}

/// A store with another part, and a closure that has changed both.
shard_store store_before_removal() {
  auto out = used_store();
  out.apply(command(4),
            content(kind::new_part, new_part{6, "v", {2}}, {floats({3, 4})}));
  out.apply(
    command(5),
    content(kind::store,
            execution_effects{
              {10, 1, 1},
              0,
              {{{.part = 4, .content = element_assignment{change_kind::assign}},
                {.part = 6, .content = element_assignment{change_kind::add}}}}},
            {floats({5, 5}), floats({1, 1})}));
  return out;
}

TEST(ShardStore, RemovesPartsAndWhatWaitsForThem) {
  auto one = store_before_removal();
  one.apply(command(6), content(kind::remove, removal{{4, 99}, {2}}));
  EXPECT_EQ(one.answer({7, 6}).outcome, shard_outcome::done);
  EXPECT_EQ(one.read(content(kind::pull, whole(4))).first.outcome,
            shard_outcome::invalid);
  shard_status status;
  const auto answer = one.read({kind::status, {}, {}}).first;
  EXPECT_FALSE(net::decode(std::as_bytes(std::span{answer.body}), status));
  EXPECT_EQ(status.parts, 1u);
  EXPECT_EQ(status.bytes, 2 * sizeof(float));
  EXPECT_EQ(status.waiting, 2u);
  // The closures count; only their changes of the other part take place.
  for (const std::uint64_t ordinal : {9, 10})
    one.apply(command(ordinal - 2),
              content(kind::decide, coordinator::decision{{ordinal, 1, 1}, 0}));
  EXPECT_EQ(one.answer({7, 7}).outcome, shard_outcome::done);
  EXPECT_EQ(one.answer({7, 8}).outcome, shard_outcome::done);
  EXPECT_TRUE(same_bits(one.read(content(kind::pull, whole(6))).second.at(0),
                        floats({4, 5})));
  // Later changes of the part are refused, and its number stays unused.
  one.apply(
    command(9),
    content(kind::change,
            change_list{{{.part = 4,
                          .content = element_assignment{change_kind::assign}}}},
            {floats({1, 2})}));
  EXPECT_EQ(one.answer({7, 9}).outcome, shard_outcome::invalid);
}

// A snapshot of the part could not be restored.
TEST(ShardStore, RefusesToRemoveAnOptimizerWithoutAPartThatItHasUpdated) {
  auto one = store_before_removal();
  one.apply(command(6), content(kind::remove, removal{{6}, {2}}));
  EXPECT_EQ(one.answer({7, 6}).outcome, shard_outcome::invalid);
  EXPECT_TRUE(same_bits(one.read(content(kind::pull, whole(6))).second.at(0),
                        floats({3, 4})))
    << "nothing is removed";
  const auto saved = save(one);
  shard_store second{1};
  second.restore(saved.image, saved.beside);
}

TEST(ShardStore, GoesOnWithTheSameBitsAfterASnapshotOfARemoval) {
  auto first = store_before_removal();
  first.apply(command(6), content(kind::remove, removal{{4}, {2}}));
  const auto saved = save(first);
  shard_store second{1};
  second.restore(saved.image, saved.beside);
  for (auto* one : {&first, &second})
    for (const std::uint64_t ordinal : {9, 10})
      one->apply(
        command(ordinal - 2),
        content(kind::decide, coordinator::decision{{ordinal, 1, 1}, 0}));
  for (std::uint64_t i = 0; i < 9; ++i)
    EXPECT_EQ(first.answer({7, i}).body, second.answer({7, i}).body) << i;
  EXPECT_TRUE(
    same_bits(first.read(content(kind::pull, whole(6))).second.at(0),
              second.read(content(kind::pull, whole(6))).second.at(0)));
}

// -- tables -------------------------------------------------------------------

/// Part 5: 20 of 40 rows, which are kept from their second gradient on, and
/// dropped when they are idle.
new_part some_table() {
  return {.part = 5,
          .variable = "t",
          .dims = {40, 2},
          .index = 1,
          .parts = 2,
          .is_table = true,
          .table = {.initializer = "normal",
                    .seed = 3,
                    .min_touches = 2,
                    .max_idle_changes = 6}};
}

tensors rows_of_table(const std::vector<std::int64_t>& rows) {
  tensor values{{shape{std::int64_t(rows.size()), 2}, dtype::float32}};
  float next = 0.5f;
  for (auto& x : values.mutable_data<float>())
    x = next = 0.75f - next * 0.5f;
  return {numbers(rows), values};
}

change_list change_of_table(change_content what) {
  return {{{.part = 5, .has_rows = true, .content = std::move(what)}}};
}

change_list apply_step(std::uint64_t step,
                       std::vector<std::uint32_t> contributors) {
  return {{{.part = 5,
            .content = contributed_step{
              {.optimizer = 2}, step, std::move(contributors)}}}};
}

/// Commands that use all that a table keeps: rows, slots, gradients that are
/// counted, the last changes of rows, contributions, and effects that wait.
std::vector<shard_content> commands_of_table() {
  const auto change = [](change_content what, std::vector<std::int64_t> rows) {
    return content(kind::change, change_of_table(what), rows_of_table(rows));
  };
  const auto gradient = [&](std::vector<std::int64_t> rows) {
    return change(optimizer_step{.optimizer = 2}, std::move(rows));
  };
  const auto contribute = [](std::uint64_t step, std::uint32_t replica,
                             std::vector<std::int64_t> rows) {
    return content(kind::change,
                   change_of_table(step_contribution{step, replica}),
                   rows_of_table(rows));
  };
  return {
    content(kind::new_part, new_part{4, "w", {2}}, {floats({1, 2})}),
    content(kind::new_part, some_table(), {tensor::zeros({0})}),
    content(kind::new_optimizer,
            new_optimizer{2, "adam", {"learning_rate"}, {0.5}}),
    gradient({3, 7}),
    contribute(4, 1, {3, 9}),
    gradient({7, 3, 7, 10}), // keeps rows 3 and 7
    content(kind::store,
            execution_effects{
              {9, 1, 1}, 0, change_of_table(optimizer_step{.optimizer = 2})},
            rows_of_table({9, 11})),
    contribute(4, 0, {7, 12}),
    change(element_assignment{change_kind::add}, {15, 15}),
    content(kind::change, apply_step(4, {0, 1})),
    contribute(5, 1, {1}),
    content(kind::decide, coordinator::decision{{9, 1, 1}, 0}), // keeps row 9
    gradient({12, 0}),                                          // keeps row 12
    gradient({0}),                                              // keeps row 0
    gradient({}),
    gradient({18}), // row 15 is idle
    content(kind::change, apply_step(5, {1})),
    gradient({15, 18, 1}), // keeps rows 18 and 1; row 15 counts anew
    gradient({15, 11}),    // keeps row 15
    gradient({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17}),
  };
}

void apply(shard_store& to, std::uint64_t number, const shard_content& what) {
  to.apply(command(number), what);
  EXPECT_EQ(to.answer({7, number}).problem, "") << number;
}

/// Performs the first commands.
shard_store store_with_table(std::size_t count) {
  shard_store out{1};
  const auto all = commands_of_table();
  for (std::size_t i = 0; i < count; ++i)
    apply(out, i, all[i]);
  return out;
}

/// The rows of a table, the slots of its optimizer, and its steps.
tensors state_of_table(shard_store& of) {
  tensors out;
  const auto add = [&](const shard_content& what) {
    auto [answer, beside] = of.read(what);
    EXPECT_EQ(answer.problem, "");
    out.push_back(beside.at(0));
  };
  add(content(kind::pull, part_pull{5, false, {}}));
  for (const std::uint32_t slot : {0u, 1u, 2u})
    add(content(kind::pull_optimizer, optimizer_pull{5, 2, slot}));
  return out;
}

TEST(ShardStore, HasTablesWhoseRowsFollowFromTheCommands) {
  auto one = store_with_table(commands_of_table().size());
  // The oracle: a table of a shard without copies.
  shard_state alone;
  std::uint64_t updates = 0;
  for (const auto& what : commands_of_table()) {
    const auto decoded = [&]<class T>(T out) {
      EXPECT_FALSE(net::decode(std::as_bytes(std::span{what.body}), out));
      return out;
    };
    if (what.kind == kind::new_part)
      updates = alone.add(decoded(new_part{}), what.operands.at(0));
    else if (what.kind == kind::new_optimizer)
      updates = alone.add(decoded(new_optimizer{}));
    else if (what.kind == kind::store)
      updates = alone.store(decoded(execution_effects{}), what.operands);
    else if (what.kind == kind::decide)
      alone.decide(decoded(coordinator::decision{}));
    else
      updates = alone.change(decoded(change_list{}), what.operands);
  }
  EXPECT_EQ(updates, 16u);
  const auto found = state_of_table(one);
  EXPECT_TRUE(same_bits(found[0], alone.pull(part_pull{5, false, {}}, {})));
  for (const std::uint32_t slot : {0u, 1u, 2u})
    EXPECT_TRUE(
      same_bits(found[1 + slot], alone.pull(optimizer_pull{5, 2, slot})));
}

TEST(ShardStore, TablesGoOnWithTheSameBitsAfterASnapshotAtAnyTime) {
  const auto all = commands_of_table();
  std::set<std::string> states;
  for (std::size_t cut = 2; cut < all.size(); ++cut) {
    auto first = store_with_table(cut);
    shard_store second{1};
    const auto saved = save(first);
    ASSERT_EQ(saved.image.tables.size(), 1u);
    second.restore(saved.image, saved.beside);
    for (auto i = cut; i < all.size(); ++i) {
      for (auto* one : {&first, &second})
        apply(*one, i, all[i]);
      EXPECT_EQ(first.answer({7, i}).body, second.answer({7, i}).body);
      if (i < 3)
        continue; // there is no optimizer
      const auto expected = state_of_table(first),
                 found = state_of_table(second);
      for (std::size_t k = 0; k < expected.size(); ++k)
        EXPECT_TRUE(same_bits(found[k], expected[k]))
          << "tensor " << k << " after command " << i << ", snapshot before "
          << cut;
      const auto* const bits = reinterpret_cast<const char*>(expected[0].raw());
      states.emplace(bits, expected[0].bytes());
    }
  }
  EXPECT_GE(states.size(), 10u); // most commands change a row
}

TEST(ShardStore, RejectsAnImpossibleTableInASnapshot) {
  const auto all = save(store_with_table(9));
  // The value of a part; numbers, floats and tags of 3 rows; the number and
  // tags of a row that is counted; two contributions; operands of a closure.
  ASSERT_EQ(all.beside.size(), 1u + 3 + 2 + 2 * 2 + 2);
  for (std::size_t i = 0; i < all.beside.size(); ++i) {
    auto one = all;
    if (i > 0) { // a part can be float64
      one.beside[i] = tensor::full({1, 1}, 1, dtype::float64);
      EXPECT_NE(problem_of(one), "none") << i;
    }
    one.beside[i] = {};
    EXPECT_NE(problem_of(one), "none") << i;
    one.beside.erase(one.beside.begin() + std::ptrdiff_t(i));
    EXPECT_NE(problem_of(one), "none") << i;
  }
  const auto problem_with = [&](const std::function<void(saved_store&)>& flip) {
    auto one = all;
    flip(one);
    return problem_of(one);
  };
  const std::string begin = "the snapshot of a shard: ";
  EXPECT_EQ(problem_with([](auto& x) { x.image.tables.clear(); }),
            begin + "1 images of 1 parts, and 0 of 1 tables");
  EXPECT_EQ(problem_with([](auto& x) { x.image.parts[1].is_table = false; }),
            begin + "1 images of 2 parts, and 1 of 0 tables");
  EXPECT_EQ(problem_with([](auto& x) { x.image.parts[1].part = 4; }),
            begin + "part 4 occurs twice");
  EXPECT_EQ(problem_with([](auto& x) { x.image.parts[1].dims.clear(); }),
            "the table \"t\" cannot be a scalar");
  EXPECT_EQ(problem_with([](auto& x) {
              x.image.parts[1].dims = {2, std::int64_t{1} << 61};
            }),
            "a table cannot be [2, 2305843009213693952]: its rows have more "
            "than 268435456 elements");
  EXPECT_EQ(problem_with([](auto& x) { x.image.parts[1].index = 2; }),
            "shard 2 of 2");
  EXPECT_NE(problem_with([](auto& x) {
              x.image.parts[1].table.initializer = "no initializer";
            }).find("is unknown"),
            std::string::npos);
  EXPECT_EQ(problem_with([](auto& x) {
              x.image.tables[0].optimizers.clear();
            }).find("the snapshot of a table: a tensor is "),
            0u);
  EXPECT_EQ(problem_with([](auto& x) {
              x.image.tables[0].optimizers[0].initial.pop_back();
            }),
            begin + "part 5 has 1 slots of optimizer 2");
  EXPECT_EQ(problem_with(
              [](auto& x) { x.image.tables[0].optimizers[0].optimizer = 3; }),
            "there is no optimizer 3");
  EXPECT_EQ(problem_with([](auto& x) {
              x.beside[1] = numbers({3, 7, 20});
            }),
            "the snapshot of a table: there is no row 20");
  EXPECT_EQ(problem_with([](auto& x) {
              x.beside[1] = numbers({3, 7, 7});
            }),
            "the snapshot of a table: row 7 occurs twice");
}

/// With the sanitizers, this also finds accesses outside of the rows.
TEST(ShardStore, ASnapshotWithWrongBytesIsRejectedOrUsed) {
  const auto all = save(store_with_table(9));
  const auto bytes = net::encode(all.image);
  std::size_t rejected = 0, used = 0;
  for (std::uint64_t seed = 1; seed <= 2'000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random{seed};
    auto bad = bytes;
    auto one = all;
    if (random() % 2 == 0) {
      bad[random() % bad.size()] ^= std::byte(1 + random() % 255);
    } else {
      auto& flipped = one.beside[random() % one.beside.size()];
      flipped = flipped.clone();
      flipped.raw()[random() % flipped.bytes()] ^=
        std::byte(1 + random() % 255);
    }
    shard_store made{1};
    if (net::decode(bad, one.image)) {
      ++rejected;
      continue;
    }
    try {
      made.restore(one.image, one.beside);
    } catch (const std::logic_error&) {
      ++rejected;
      continue;
    }
    ++used;
    made.apply(command(50),
               content(kind::change,
                       change_of_table(optimizer_step{.optimizer = 2}),
                       rows_of_table({3, 9, 11})));
    made.apply(command(51), content(kind::change, apply_step(4, {0, 1})));
    made.read(content(kind::pull, part_pull{5, true, {}}, {numbers({3, 12})}));
    if (one.image.parts[1].dims == some_table().dims) // else there can be many
      for (const std::uint32_t slot : {0u, 1u})
        made.read(content(kind::pull_optimizer, optimizer_pull{5, 2, slot}));
  }
  EXPECT_GT(rejected, 300u);
  EXPECT_GT(used, 300u);
}

TEST(ShardStore, SaysWhatWouldExceedALimit) {
  const auto store = used_store(); // 2 elements, and 2 slots of them
  const auto part =
    content(kind::new_part, new_part{5, "v", {3}}, {floats({1, 2, 3})});
  EXPECT_EQ(store.limit_problem(part, 36), "");
  EXPECT_NE(store.limit_problem(part, 35).find("its limit is 35"),
            std::string::npos);
  EXPECT_EQ(store.limit_problem(part, 0), "");
  // `apply` rejects an unknown part.
  const auto unknown = content(
    kind::change,
    change_list{{{.part = 9, .content = element_assignment{change_kind::add}}}},
    {floats({1})});
  EXPECT_EQ(store.limit_problem(unknown, 1), "");
}

TEST(ShardStore, AnswersARejectedCommandWithItsReason) {
  auto store = used_store();
  const std::string reason = "too large";
  store.apply(command(9), {kind::rejected, {reason.begin(), reason.end()}, {}});
  EXPECT_EQ(store.answer({7, 9}).outcome, shard_outcome::invalid);
  EXPECT_EQ(store.answer({7, 9}).problem, reason);
  EXPECT_FALSE(is_read(kind::rejected));
}

} // namespace
} // namespace troupe
