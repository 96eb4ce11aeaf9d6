#include "op_cases.hpp"
#include "troupe/tensors/ops/all.hpp"

#include <algorithm>

// Tests every op on each of its cases. Compares the float64 reference with
// central differences, and the other kernels with the reference. Compares
// results for inputs that are ranges of larger tensors with results for copies.
// An op that is added to the list is tested too.

namespace troupe {
namespace {

class EveryOp : public ::testing::TestWithParam<tried_op> {};

/// No failures.
const std::vector<std::string> none;

TEST_P(EveryOp, ReferenceGradientMatchesCentralDifferences) {
  if (GetParam().definition->is_reshape)
    return; // It has no kernel; the tests of the tape cover reshape.
  if (!GetParam().differentiable())
    GTEST_SKIP() << GetParam().definition->name << " is not differentiable";
  EXPECT_EQ(detail::check_reference_gradient(GetParam()), none);
}

TEST_P(EveryOp, KernelsAgreeWithTheReferenceWithinTheStatedBound) {
  EXPECT_EQ(detail::check_kernels(GetParam()), none);
}

TEST_P(EveryOp, AccumulatesGradients) {
  EXPECT_EQ(detail::check_accumulation(GetParam()), none);
}

TEST_P(EveryOp, ComputesOnlyRequestedGradients) {
  EXPECT_EQ(detail::check_requested_gradients(GetParam()), none);
}

TEST_P(EveryOp, SparseGradientsAreEqualToTheDenseOnes) {
  EXPECT_EQ(detail::check_sparse_gradients(GetParam()), none);
}

TEST_P(EveryOp, ASliceHasTheBitsOfACopy) {
  EXPECT_EQ(detail::check_displaced_inputs(GetParam()), none);
}

INSTANTIATE_TEST_SUITE_P(Grid, EveryOp, ::testing::ValuesIn(op_grid()),
                         name_of);

TEST(OpList, NamesAreUniqueAndEveryOpHasCases) {
  std::vector<std::string_view> names;
  for (const auto* x : ops::built_in) {
    names.push_back(x->name);
    EXPECT_FALSE(x->cases.empty()) << x->name;
    EXPECT_FALSE(x->formula.empty()) << x->name;
    EXPECT_EQ(find_op(x->name), x);
  }
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
  EXPECT_EQ(find_op("no such op"), nullptr);
}

} // namespace
} // namespace troupe
