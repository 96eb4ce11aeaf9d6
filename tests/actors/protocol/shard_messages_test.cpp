#include "troupe/actors/protocol/shard_messages.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <vector>

namespace troupe {
namespace {

using parameter_server::part_change;
using kind = part_change::kind;

part_change sent(const part_change& change) {
  const auto encoded = encode(std::vector<addressed_change>{{4, change}});
  EXPECT_EQ(encoded.list.changes.at(0).part, 4u);
  EXPECT_EQ(encoded.operands.size(), change.has_operand() ? 1u : 0u);
  return change_of(encoded.list.changes[0]);
}

TEST(ShardMessages, KeepWhatAChangeNeeds) {
  const auto one = tensor::full({}, 1);
  for (const auto what :
       {kind::assign, kind::add, kind::subtract, kind::minimum, kind::maximum})
    EXPECT_EQ(sent({.what = what, .all = one}).what, what);

  auto change = sent({.what = kind::gradient,
                      .all = one,
                      .optimizer = 2,
                      .learning_rate = 0.5f,
                      .scale = 0.25f});
  EXPECT_EQ(change.what, kind::gradient);
  EXPECT_EQ(change.optimizer, 2u);
  EXPECT_EQ(change.learning_rate, 0.5f);
  EXPECT_EQ(change.scale, 0.25f);
  change = sent({.what = kind::gradient, .all = one});
  EXPECT_FALSE(change.learning_rate);
  EXPECT_EQ(change.scale, 1);

  change =
    sent({.what = kind::contribute, .all = one, .step = 7, .replica = 3});
  EXPECT_EQ(change.what, kind::contribute);
  EXPECT_EQ(change.step, 7u);
  EXPECT_EQ(change.replica, 3u);

  change = sent({.what = kind::apply_contributions,
                 .optimizer = 2,
                 .learning_rate = 0.5f,
                 .scale = 0.25f,
                 .step = 7,
                 .contributors = {1, 3}});
  EXPECT_EQ(change.what, kind::apply_contributions);
  EXPECT_EQ(change.optimizer, 2u);
  EXPECT_EQ(change.learning_rate, 0.5f);
  EXPECT_EQ(change.scale, 0.25f);
  EXPECT_EQ(change.step, 7u);
  EXPECT_EQ(change.contributors, (std::vector<std::uint32_t>{1, 3}));

  change =
    sent({.what = kind::restore_slot, .all = one, .optimizer = 2, .slot = 1});
  EXPECT_EQ(change.what, kind::restore_slot);
  EXPECT_EQ(change.optimizer, 2u);
  EXPECT_EQ(change.slot, 1u);

  change = sent({.what = kind::restore_steps, .optimizer = 2, .steps = 9});
  EXPECT_EQ(change.what, kind::restore_steps);
  EXPECT_EQ(change.optimizer, 2u);
  EXPECT_EQ(change.steps, 9u);
}

TEST(ShardMessages, RejectAnAssignmentOfAnotherKind) {
  for (const auto what :
       {kind::gradient, kind::contribute, kind::apply_contributions,
        kind::restore_slot, kind::restore_steps})
    EXPECT_THROW(change_of({.part = 4, .content = element_assignment{what}}),
                 std::invalid_argument);
}

} // namespace
} // namespace troupe
