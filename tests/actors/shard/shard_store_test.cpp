#include "troupe/actors/shard/shard_store.hpp"
#include "troupe/net/codec/codec.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace troupe {
namespace {

using kind = shard_request_kind;
using change_kind = parameter_server::part_change::kind;

tensor floats(std::vector<float> xs) {
  return tensor::of<float>({std::int64_t(xs.size())}, xs);
}

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
  return {{{.part = 4, .what = change_kind::gradient, .optimizer = 2}}};
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

saved_store save(const shard_store& from) {
  saved_store out;
  out.image = from.save(out.beside);
  return out;
}

std::string problem_of(const saved_store& from) {
  auto made = used_store();
  const auto before = value_of(made);
  try {
    made.restore(from.image, from.beside);
  } catch (const std::invalid_argument& e) {
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
            begin + "0 images of 1 parts");
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

} // namespace
} // namespace troupe
