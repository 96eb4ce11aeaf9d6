#include "troupe/tensors/context.hpp"
#include "troupe/tensors/variable.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using troupe::parameters;
using troupe::same_bits;
using troupe::tensor;

parameters three(std::uint32_t copies = 1, std::uint32_t replicas = 1) {
  return {{{"a", {3, 5}}, {"b", {}}, {"c", {16}}}, copies, replicas};
}

TEST(Parameters, StartAtMultiplesOfSixteenWithZerosBetween) {
  const auto p = three();
  EXPECT_EQ(p.offset(0), 0u);
  EXPECT_EQ(p.offset(1), 16u);
  EXPECT_EQ(p.offset(2), 32u);
  EXPECT_EQ(p.size(), 48u);
  EXPECT_EQ(p.count(), 32u);
  for (const auto& flat : {p.values(), p.gradients()}) {
    EXPECT_EQ(flat.dims(), (troupe::shape{48}));
    EXPECT_EQ(std::ranges::count(flat.data<float>(), 0.0f), 48);
  }
}

TEST(Parameters, AreViewsOfTheFlatBuffers) {
  const auto p = three();
  auto flat = p.values();
  for (std::size_t i = 0; i < flat.size(); ++i)
    flat.mutable_data<float>()[i] = static_cast<float>(i);
  const auto& a = p.variables()[0];
  EXPECT_EQ(a.value().dims(), (troupe::shape{3, 5}));
  EXPECT_EQ(a.value().data<float>()[14], 14);
  EXPECT_EQ(p.variables()[1].value().item<float>(), 16);
  EXPECT_EQ(p.variables()[2].value().data<float>()[0], 32);
  a.gradient().mutable_data<float>()[1] = 7;
  EXPECT_EQ(p.gradients().data<float>()[1], 7);
}

TEST(Parameters, CanUseAnotherTensorAsTheirValues) {
  auto p = three();
  const auto before = p.variables()[1].value();
  auto flat = troupe::tensor::zeros({48});
  flat.mutable_data<float>()[16] = 5;
  p.use_values(flat);
  EXPECT_EQ(p.values().raw(), flat.raw());
  EXPECT_EQ(p.variables()[1].value().item<float>(), 5);
  EXPECT_EQ(before.item<float>(), 0);
  EXPECT_THROW(p.use_values({}), std::invalid_argument);
  EXPECT_THROW(p.use_values(troupe::tensor::zeros({47})),
               std::invalid_argument);
  parameters copies{{{"a", {2}}}, 2, 2};
  EXPECT_THROW(copies.use_values(troupe::tensor::zeros({16})),
               std::logic_error);
}

TEST(Parameters, HaveNamesShapesAndUniqueIds) {
  const auto p = three(), q = three();
  std::set<std::uint32_t> ids;
  for (const auto* each : {&p, &q})
    for (const auto& x : each->variables())
      ids.insert(x.id());
  EXPECT_EQ(ids.size(), 6u);
  EXPECT_FALSE(ids.contains(0));
  EXPECT_EQ(p.variables()[2].name(), "c");
  EXPECT_EQ(p.variables()[2].dims(), (troupe::shape{16}));
}

TEST(Parameters, EachReplicaHasItsCopyAndItsGradient) {
  const auto p = three(3, 3);
  EXPECT_EQ(p.copies(), 3u);
  for (std::uint32_t r = 0; r < 3; ++r) {
    p.values(r).mutable_data<float>()[32] = static_cast<float>(r);
    p.gradients(r).mutable_data<float>()[32] = 10 + static_cast<float>(r);
  }
  for (std::uint32_t r = 0; r < 3; ++r) {
    troupe::context c;
    c.copy_index = r;
    const troupe::context_scope here{c};
    const auto& x = p.variables()[2];
    EXPECT_EQ(x.value().data<float>()[0], static_cast<float>(r));
    EXPECT_EQ(x.gradient().data<float>()[0], 10 + static_cast<float>(r));
  }
}

/// A block of the pool is filled first, which the gradients get again.
TEST(Parameters, NothingIsWrittenToTheGradientsOfTables) {
  const auto with_table = [] {
    return parameters{{{"a", {3}}, {"table", {40, 5}, true}, {"c", {16}}}};
  };
  const auto size = std::int64_t(with_table().size());
  for (const std::array blocks{tensor::full({size}, 9),
                               tensor::full({size}, 9)};
       const auto& one : blocks)
    EXPECT_EQ(one.data<float>()[0], 9);
  const auto p = with_table();
  const auto gradients = p.gradients().data<float>();
  for (std::size_t i = 0; i < p.size(); ++i) {
    EXPECT_EQ(p.values().data<float>()[i], 0);
    const bool is_table = i >= p.offset(1) && i < p.offset(2);
    EXPECT_EQ(gradients[i], is_table ? 9 : 0) << i;
  }
}

TEST(Parameters, ReplicasThatTakeTurnsShareOneCopy) {
  const auto p = three(1, 2);
  troupe::context c;
  c.copy_index = 1;
  const troupe::context_scope here{c};
  const auto& x = p.variables()[0];
  EXPECT_TRUE(x.value().shares_storage_with(p.values(0)));
  EXPECT_TRUE(x.gradient().shares_storage_with(p.gradients(1)));
}

TEST(Parameters, RejectAReplicaWithoutACopy) {
  const auto p = three(2, 2);
  troupe::context c;
  c.copy_index = 2;
  const troupe::context_scope here{c};
  try {
    p.variables()[0].value();
    FAIL();
  } catch (const std::logic_error& error) {
    EXPECT_NE(std::string{error.what()}.find("replica 2"), std::string::npos);
  }
}

TEST(Parameters, RejectZeroCopiesOrReplicas) {
  EXPECT_THROW(three(0, 1), std::logic_error);
  EXPECT_THROW(three(1, 0), std::logic_error);
}

TEST(Parameters, MayBeEmpty) {
  const parameters nothing, empty{std::vector<troupe::parameter_spec>{}};
  for (const auto* p : {&nothing, &empty}) {
    EXPECT_EQ(p->size(), 0u);
    EXPECT_EQ(p->count(), 0u);
    EXPECT_TRUE(p->variables().empty());
  }
  EXPECT_EQ(empty.values().size(), 0u);
}

TEST(Parameters, OutliveTheirHandlesInAVariable) {
  troupe::variable x;
  {
    const auto p = three();
    x = p.variables()[0];
  }
  EXPECT_EQ(x.name(), "a");
  EXPECT_EQ(x.value().size(), 15u);
}

} // namespace
