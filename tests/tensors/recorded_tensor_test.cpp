#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/ops/reduce.hpp"
#include "troupe/tensors/ops/reshape.hpp"
#include "troupe/tensors/ops/unary.hpp"
#include "troupe/tensors/tape.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>

// Every operation on a recorded tensor keeps the gradient or is an error.

namespace troupe {
namespace {

/// A variable `bias` of two zeros, and a tape `t` that records.
struct recorded_bias {
  parameters values{{{"bias", {2}}}};
  tape t;

  const variable& bias() const { return values.variables()[0]; }

  /// Returns a recorded tensor [4, 2]: ones plus the bias.
  tensor y() const { return tensor::full({4, 2}, 1) + bias().value(); }

  /// Returns the gradient of the bias's first element. Expects that the
  /// gradient of its second element is equal.
  float gradient(const tensor& loss) {
    const auto g = t.gradient(loss, values.variables())[0];
    EXPECT_EQ(g.data<float>()[0], g.data<float>()[1]);
    return g.data<float>()[0];
  }
};

std::string refusal_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Tape, SliceOfATracedTensorKeepsItsGradient) {
  recorded_bias x;
  const auto y = x.y();
  const auto part = y.slice(0, 2);
  EXPECT_TRUE(part.shares_storage_with(y));
  EXPECT_EQ(x.gradient(reduce_sum(y) + reduce_sum(part)), 6);
}

TEST(PauseRecording, ValuesOfEarlierTapesBecomeConstants) {
  recorded_bias x;
  const auto y = x.y();
  {
    const pause_recording meanwhile;
    EXPECT_EQ(tape::recording(), nullptr);
    EXPECT_FALSE(is_recorded(y));
    EXPECT_FALSE(is_recorded(y * 2.0));
    EXPECT_FALSE(is_recorded(x.bias().value() * 2.0));
    tape inner; // This tape records, although it is made during the pause.
    const auto z = x.bias().value() * 3.0;
    EXPECT_EQ(inner.gradient(z, x.values.variables())[0].data<float>()[0], 3);
  }
  EXPECT_EQ(tape::recording(), &x.t);
  EXPECT_EQ(x.gradient(reduce_sum(y)), 4);
}

TEST(Tape, GradientOfASliceOfASliceIsInItsRows) {
  tape t;
  const auto x = t.watch(tensor::of<float>({5}, {1, 2, 3, 4, 5}));
  const auto y = x.slice(1, 5).slice(1, 3); // {3, 4}
  const auto g = t.gradient(y * y, std::array{x});
  EXPECT_TRUE(same_bits(g[0], tensor::of<float>({5}, {0, 0, 6, 8, 0})));
}

TEST(Tape, CloneOfATracedTensorKeepsItsGradient) {
  recorded_bias x;
  const auto y = x.y();
  const auto copy = y.clone();
  EXPECT_FALSE(copy.shares_storage_with(y));
  EXPECT_EQ(x.gradient(reduce_sum(y) + reduce_sum(copy)), 8);
}

TEST(Tape, ReshapedOfATracedTensorKeepsItsGradient) {
  recorded_bias x;
  const auto y = x.y();
  EXPECT_EQ(x.gradient(reduce_sum(y) + reduce_sum(y.reshaped({8}))), 8);
}

TEST(Tape, RangeOfATracedTensorKeepsItsGradient) {
  recorded_bias x;
  const auto y = x.y();
  EXPECT_EQ(x.gradient(reduce_sum(y) + reduce_sum(y.range(2, 6))), 6);
}

TEST(Tape, AsAnotherFloatATracedTensorKeepsItsGradient) {
  recorded_bias x;
  const auto y = x.y();
  const auto there_and_back =
    reduce_sum(y.as(dtype::float64) * 3.0).as(dtype::float32);
  EXPECT_EQ(x.gradient(reduce_sum(y) + there_and_back), 16);
}

TEST(Tape, CastsAFloat64GradientDownAndUp) {
  tape t;
  const auto x = t.watch(tensor::of<double>({2}, {3, 5}));
  const auto narrow = x.as(dtype::float32);
  EXPECT_EQ(narrow.type(), dtype::float32);
  const auto g = t.gradient(narrow * narrow, std::array{x});
  EXPECT_TRUE(same_bits(g[0], tensor::of<double>({2}, {6, 10})));
}

TEST(Tape, VariablesKeepTheirGradientInViews) {
  recorded_bias x;
  const auto w = x.bias().value();
  const auto loss = reduce_sum(w.slice(0, 2)) + reduce_sum(w.clone())
                    + reduce_sum(w.reshaped({2, 1}));
  EXPECT_EQ(x.gradient(loss), 3);
}

TEST(Tape, DetachRemovesTheTrace) {
  recorded_bias x;
  const auto y = x.y();
  EXPECT_TRUE(y.detach().shares_storage_with(y));
  EXPECT_EQ(x.gradient(reduce_sum(y) + reduce_sum(y.detach())), 4);
}

TEST(Tape, RejectsConversionOfATracedTensorToIntegers) {
  recorded_bias x;
  const auto y = x.y();
  for (const auto type :
       {dtype::int32, dtype::int64, dtype::uint8, dtype::boolean}) {
    const auto why = refusal_of([&] { y.as(type); });
    EXPECT_EQ(why, "as(" + std::string{to_string(type)}
                     + ") of float32[4, 2], which a tape records, would lose "
                       "its gradient; convert its detach()");
    EXPECT_EQ(y.detach().as(type).type(), type);
  }
}

TEST(Tape, RejectsACopyThatWouldLoseTheTrace) {
  recorded_bias x;
  const auto y = x.y();
  tensor out{{8, 2}};
  EXPECT_EQ(refusal_of([&] { out.slice(0, 4).copy_from(y); }),
            "copy_from() of float32[4, 2], which a tape records, would lose "
            "its gradient; copy from its detach()");
  out.slice(0, 4).copy_from(y.detach());
  EXPECT_EQ(out.data<float>()[7], 1);
}

TEST(Tape, RejectsWritesToElementsThatItNeeds) {
  recorded_bias x;
  auto y = x.y();
  auto w = x.bias().value();
  for (auto* held : {&y, &w}) {
    EXPECT_NE(refusal_of([&] {
                held->mutable_data<float>();
              }).find("cannot be written while a tape needs it"),
              std::string::npos);
    EXPECT_NE(refusal_of([&] {
                held->copy_from(tensor::zeros(held->dims()));
              }).find("detach().clone()"),
              std::string::npos);
  }
  x.gradient(reduce_sum(y));
  // Writes are allowed now, because no gradient depends on the elements any
  // more.
  y.mutable_data<float>()[0] = 7;
  w.mutable_data<float>()[0] = 7;
}

TEST(Tape, AllowsWritesToAVariableThatItDidNotRead) {
  recorded_bias x;
  auto w = x.bias().value();
  w.mutable_data<float>()[0] = w.mutable_data<float>()[1] = 3;
  EXPECT_EQ(x.gradient(square(x.bias().value())), 6);
}

TEST(Tape, RecordsNothingAfterGradientsWereRequested) {
  recorded_bias x;
  const auto y = x.y();
  EXPECT_TRUE(is_recorded(y));
  x.gradient(reduce_sum(y));
  EXPECT_FALSE(is_recorded(y));
  EXPECT_EQ((y * 2.0).trace(), 0u);
  EXPECT_EQ(y.as(dtype::int32).data<std::int32_t>()[0], 1);
}

TEST(Tape, RejectsAnOpThatHasNoGradient) {
  auto without = *find_op("negate");
  const std::array kernels{
    op_kernels{dtype::float32, without.find_kernels(dtype::float32)->forward}};
  without.kernels = kernels;
  recorded_bias x;
  const auto y = x.y();
  EXPECT_EQ(refusal_of([&] { apply(without, {y}); }),
            "negate: a tape records its input, but the op has no gradient; "
            "pass the input's detach()");
  EXPECT_EQ(apply(without, {y.detach()}).data<float>()[0], -1);
}

TEST(Tape, RejectsWatchingIntegersAndRecordedTensors) {
  recorded_bias x;
  const auto y = x.y();
  EXPECT_EQ(refusal_of([&] { x.t.watch(tensor::zeros({2}, dtype::int32)); }),
            "a tape cannot watch int32[2]: only floats have gradients");
  EXPECT_NE(refusal_of([&] { x.t.watch(y); }), "no error");
  EXPECT_NE(refusal_of([&] { x.t.watch(x.bias().value()); }), "no error");
}

TEST(Tape, RejectsAValueOfAShadowedTape) {
  recorded_bias x;
  const auto y = x.y();
  {
    tape inner;
    const auto z = inner.watch(tensor::full({4, 2}, 2));
    const auto why = refusal_of([&] { multiply(y, z); });
    EXPECT_NE(why.find("another tape than the one that records now"), why.npos)
      << why;
    EXPECT_NE(refusal_of([&] { y.clone(); }), "no error");
    EXPECT_EQ(inner.gradient(y.detach() * z, std::array{z})[0].data<float>()[0],
              1);
    EXPECT_TRUE(is_recorded(y.clone())); // The outer tape records again.
  }
  EXPECT_EQ(x.gradient(reduce_sum(y)), 4);
}

TEST(Tape, RejectsAValueOfANewerTape) {
  recorded_bias x;
  const auto y = x.y();
  tensor z;
  {
    tape inner;
    z = x.y();
  }
  EXPECT_NE(refusal_of([&] { add(y, z); }), "no error");
  EXPECT_EQ(x.gradient(y + z.detach()), 4);
}

/// Doubles its input. Uses operations that a tape would record or reject if the
/// input were tracked.
void doubled(op_call& c) {
  c.in[0].as(dtype::int32);
  c.out[0].copy_from(c.in[0].clone());
  for (auto& v : c.out[0].mutable_data<float>())
    v *= 2;
}

void doubled_backward(op_call& c) {
  c.in[0].as(dtype::int32);
  c.grad_in[0].copy_from(c.grad_out[0] * 2.0);
}

TEST(Tape, KernelsGetUntrackedTensors) {
  auto twice = *find_op("negate");
  twice.name = "twice";
  constexpr std::array kernels{
    op_kernels{dtype::float32, doubled, doubled_backward}};
  twice.kernels = kernels;
  tape other; // Records while `inner` computes its gradients.
  recorded_bias inner;
  const auto y = apply(twice, {inner.bias().value()});
  EXPECT_EQ(inner.gradient(y), 2);
}

TEST(Tape, GradientsOfThreeMicroBatchesAddUp) {
  parameters values{{{"w", {1}}}};
  tensors sum;
  for (const double inputs : {1, 10, 100}) {
    tape t;
    const auto g =
      t.gradient(values.variables()[0].value() * inputs, values.variables());
    if (sum.empty())
      sum = g;
    else
      sum[0] = sum[0] + g[0];
  }
  EXPECT_EQ(sum[0].item<float>(), 111);
}

TEST(Tape, ASecondLossKeepsTheGradientsOfTheFirst) {
  parameters values{{{"w", {1}}, {"unused", {1}}}};
  const auto gradient = [&](double inputs) {
    tape t;
    return t.gradient(values.variables()[0].value() * inputs,
                      values.variables());
  };
  const auto first = gradient(1);
  const auto second = gradient(10);
  EXPECT_EQ(first[0].item<float>(), 1);
  EXPECT_EQ(second[0].item<float>(), 10);
  EXPECT_FALSE(first[1].shares_storage_with(second[1]));
  EXPECT_FALSE(first[0].shares_storage_with(values.gradients()));
}

} // namespace
} // namespace troupe
