#include "troupe/strategies/parameter_server/part_image.hpp"
#include "troupe/strategies/parameter_server/stored_part.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::parameter_server {

namespace {

using kind = part_change::kind;

tensor vector_of(std::vector<float> xs) {
  return tensor::of<float>({std::int64_t(xs.size())}, xs);
}

const update_rule some_rule = adam{.learning_rate = 0.5f};

part_change gradient(std::uint32_t optimizer, std::vector<float> xs) {
  return {.what = kind::gradient,
          .all = vector_of(std::move(xs)),
          .optimizer = optimizer,
          .rule = some_rule};
}

part_change contribution(std::uint64_t step, std::uint32_t replica) {
  return {.what = kind::contribute,
          .all = vector_of({float(step), float(replica)}),
          .step = step,
          .replica = replica};
}

part_change apply_step(std::uint64_t step, std::vector<std::uint32_t> from) {
  return {.what = kind::apply_contributions,
          .optimizer = 3,
          .rule = some_rule,
          .step = step,
          .contributors = std::move(from)};
}

/// A part with two optimizers, and gradients that wait for steps 5 and 7.
stored_part used_part() {
  stored_part out{vector_of({1, 2})};
  out.apply(gradient(1, {0.5f, -1}));
  out.apply(gradient(3, {2, 1}));
  out.apply(contribution(4, 0));
  out.apply(apply_step(4, {0}));
  for (const auto& [step, replica] :
       std::vector<std::pair<std::uint64_t, std::uint32_t>>{
         {5, 0}, {5, 2}, {7, 1}})
    out.apply(contribution(step, replica));
  return out;
}

struct saved_part {
  part_image image;
  std::vector<tensor> beside;
};

saved_part save(const stored_part& from) {
  saved_part out;
  out.image = from.save(out.beside);
  return out;
}

stored_part restore(const saved_part& from) {
  std::span<const tensor> beside{from.beside};
  auto out = stored_part::restore(from.image, beside);
  EXPECT_TRUE(beside.empty());
  return out;
}

std::string problem_of(const saved_part& from) {
  try {
    restore(from);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "none";
}

TEST(PartImage, GoesOnWithTheSameBits) {
  auto first = used_part();
  auto second = restore(save(first));
  EXPECT_EQ(second.version(), first.version());
  EXPECT_EQ(second.bytes(), first.bytes());
  for (const auto& change :
       {gradient(1, {1, 1}), apply_step(5, {0, 2}), gradient(3, {-1, 3}),
        contribution(6, 0), apply_step(7, {1})}) {
    first.apply(change);
    second.apply(change);
    EXPECT_TRUE(same_bits(first.value(), second.value()));
  }
  EXPECT_EQ(second.steps(1), 2u);
  EXPECT_EQ(second.steps(3), first.steps(3));
  EXPECT_TRUE(
    same_bits(first.slot(3, some_rule, 1), second.slot(3, some_rule, 1)));
  // A step that was applied before is over.
  const auto before = second.value();
  second.apply(apply_step(5, {0, 2}));
  EXPECT_TRUE(same_bits(second.value(), before));
}

TEST(PartImage, DoesNotChangeWithThePart) {
  auto part = used_part();
  const auto saved = save(part);
  const auto before = part.value().clone();
  part.apply(gradient(1, {1, 1}));
  EXPECT_TRUE(same_bits(restore(saved).value(), before));
}

TEST(PartImage, SaysWhatIsMissingAtEachCut) {
  const auto all = save(used_part());
  ASSERT_EQ(all.beside.size(), 8u); // a value, 2 * 2 slots, 3 gradients
  for (std::size_t n = 0; n < all.beside.size(); ++n) {
    auto cut = all;
    cut.beside.resize(n);
    EXPECT_NE(problem_of(cut).find(" is missing"), std::string::npos) << n;
  }
}

TEST(PartImage, SaysWhatIsImpossible) {
  const auto problem_with = [](const std::function<void(saved_part&)>& flip) {
    auto one = save(used_part());
    flip(one);
    return problem_of(one);
  };
  const std::string begin = "the snapshot of a part: ";
  EXPECT_EQ(problem_with([](auto& x) { x.image.optimizers[1].slots = 3; }),
            begin + "optimizer 3 has 3 slots");
  EXPECT_EQ(problem_with([](auto& x) { x.image.optimizers[1].optimizer = 1; }),
            begin + "optimizer 1 is not in its place");
  EXPECT_EQ(problem_with([](auto& x) { x.image.next_step = 6; }),
            begin + "step 5 is not in its place");
  EXPECT_EQ(problem_with([](auto& x) { x.image.waiting[1].step = 5; }),
            begin + "step 5 is not in its place");
  EXPECT_EQ(problem_with([](auto& x) { x.image.waiting[0].replicas[1] = 0; }),
            begin + "the replicas of step 5 are impossible");
  EXPECT_EQ(
    problem_with([](auto& x) { x.image.waiting[1].replicas[0] = 1u << 20; }),
    begin + "the replicas of step 7 are impossible");
  EXPECT_EQ(problem_with([](auto& x) { x.beside[2] = vector_of({1}); }),
            begin + "slot 1 of optimizer 1 is float32[1], the part float32[2]");
  EXPECT_EQ(problem_with([](auto& x) {
              x.beside[0] = tensor::full({2}, 1, dtype::uint8);
            }).find("a variable on a parameter server cannot be"),
            0u);
}

/// Changes that were checked together can leave more steps than `check` allows.
TEST(PartImage, HasAllStepsThatWait) {
  stored_part part{vector_of({1, 2})};
  for (std::uint64_t step = 0; step <= max_waiting_steps; ++step)
    part.apply(contribution(step, 0));
  const auto saved = save(part);
  ASSERT_EQ(saved.image.waiting.size(), max_waiting_steps + 1);
  auto again = restore(saved);
  for (auto* const each : {&part, &again})
    for (std::uint64_t step = 0; step <= max_waiting_steps; ++step)
      each->apply(apply_step(step, {0}));
  EXPECT_TRUE(same_bits(part.value(), again.value()));
}

} // namespace

} // namespace troupe::parameter_server
