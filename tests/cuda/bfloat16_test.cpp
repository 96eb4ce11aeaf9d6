#include "card.hpp"
#include "troupe/tensors/detail/op_check_cases.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/ops/concat.hpp"
#include "troupe/tensors/ops/dropout.hpp"
#include "troupe/tensors/ops/max_pool2d.hpp"
#include "troupe/tensors/ops/reduce.hpp"
#include "troupe/tensors/ops/sigmoid_cross_entropy.hpp"
#include "troupe/tensors/ops/softmax_cross_entropy.hpp"
#include "troupe/tensors/ops/unary.hpp"

// Kernels for bfloat16 that compute in float32 and round once have the bits of
// those for float32 on converted inputs, whose results are rounded.

namespace {

using namespace troupe;
using namespace troupe::test;

class KernelsForBfloat16 : public OnACard,
                           public ::testing::WithParamInterface<const op*> {};

std::vector<tensor> as_type(const std::vector<tensor>& list, dtype from,
                            dtype to) {
  std::vector<tensor> out;
  for (const auto& x : list)
    out.push_back(x && x.type() == from ? x.as(to) : x);
  return out;
}

TEST_P(KernelsForBfloat16, HaveTheRoundedResultsOfFloat32) {
  const auto& definition = *GetParam();
  for (std::size_t i = 0; i < definition.cases.size(); ++i) {
    const detail::tried_op tried{&definition, i, card};
    const auto* const own = kernels_on(card, definition, dtype::bfloat16);
    ASSERT_EQ(own->type, dtype::bfloat16) << "there are no such kernels";
    const auto in = detail::draw(tried, dtype::bfloat16);
    detail::run_of_op narrow{tried, in},
      wide{tried, as_type(in, dtype::bfloat16, dtype::float32)};
    for (std::size_t k = 0; k < narrow.call.out.size(); ++k) {
      const auto rounded = wide.call.out[k].as(dtype::bfloat16);
      EXPECT_TRUE(same_bits(narrow.call.out[k], rounded))
        << tried.description() << ", output " << k;
      wide.call.out[k] = rounded.as(dtype::float32); // which backward reads
    }
    const auto gy = narrow.draw_gradients(83);
    for (const bool adds : {false, true}) {
      const auto got = narrow.backward(gy, {}, adds),
                 want = wide.backward(
                   as_type(gy, dtype::bfloat16, dtype::float32), {}, adds);
      for (std::size_t k = 0; k < got.size(); ++k)
        EXPECT_TRUE(
          same_bits(got[k], want[k] ? want[k].as(dtype::bfloat16) : want[k]))
          << tried.description() << ", gradient " << k
          << (adds ? ", added" : "");
    }
  }
}

constexpr std::array rounding_once{&ops::add,
                                   &ops::subtract,
                                   &ops::multiply,
                                   &ops::divide,
                                   &ops::relu,
                                   &ops::sigmoid,
                                   &ops::tanh,
                                   &ops::exp,
                                   &ops::log,
                                   &ops::sqrt,
                                   &ops::square,
                                   &ops::negate,
                                   &ops::reduce_sum,
                                   &ops::reduce_mean,
                                   &ops::concat,
                                   &ops::dropout,
                                   &ops::max_pool2d,
                                   &ops::softmax,
                                   &ops::softmax_cross_entropy,
                                   &ops::sigmoid_cross_entropy};

INSTANTIATE_TEST_SUITE_P(All, KernelsForBfloat16,
                         ::testing::ValuesIn(rounding_once),
                         [](const auto& info) {
                           return std::string{info.param->name};
                         });

/// The steps of a loop over many elements, and the last ones.
TEST_F(OnACard, ManyElementsOfBfloat16AreRoundedOnce) {
  constexpr std::int64_t n = 20'000'003;
  tensor x{{n}};
  float value = 0.1f;
  for (auto& one : x.mutable_data<float>())
    one = value = value < 2 ? value + 0.37f : value - 3.9f;
  const auto a = x.as(dtype::bfloat16).to(card),
             b = tensor::full({}, 0.37, dtype::bfloat16, card);
  const auto wide_a = a.as(dtype::float32), wide_b = b.as(dtype::float32);
  EXPECT_TRUE(same_bits(add(a, a), add(wide_a, wide_a).as(dtype::bfloat16)));
  EXPECT_TRUE(
    same_bits(multiply(a, b), multiply(wide_a, wide_b).as(dtype::bfloat16)));
  EXPECT_TRUE(same_bits(relu(a), relu(wide_a).as(dtype::bfloat16)));
}

} // namespace
