#include "op_cases.hpp"
#include "troupe/tensors/tape.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

// Defines an op as a user does, with installed headers only.

// [doc:begin own_op]
#include "troupe/tensors/op.hpp"

namespace mine {

using troupe::op_call;

/// f(x) = x * sigmoid(beta x), and its derivative.
struct swish_settings {
  float beta = 1;
};

troupe::tensor_spec infer(std::span<const troupe::tensor_spec> in,
                          const troupe::op_options&) {
  return in[0]; // the output has the shape of the input
}

template <class T>
void forward(op_call& c) {
  const T beta = c.options.as<swish_settings>().beta;
  const auto x = c.in[0].data<T>();
  auto y = c.out.mutable_data<T>();
  for (std::size_t i = 0; i < x.size(); ++i)
    y[i] = x[i] / (1 + std::exp(-beta * x[i]));
}

template <class T>
void backward(op_call& c) {
  const T beta = c.options.as<swish_settings>().beta;
  const auto x = c.in[0].data<T>(), gy = c.grad_out.data<T>();
  auto gx = c.grad_in[0].template mutable_data<T>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const T s = 1 / (1 + std::exp(-beta * x[i]));
    const T g = gy[i] * s * (1 + beta * x[i] * (1 - s));
    // The tape requests a sum with the existing gradient, or only the new one.
    gx[i] = c.accumulates(0) ? gx[i] + g : g;
  }
}

const std::array cases{
  troupe::op_case{{{{1}}}, swish_settings{1}, -3, 3},
  troupe::op_case{{{{7, 5}}}, swish_settings{2}, -3, 3},
};

const troupe::op swish{
  .name = "swish",
  .arity = 1,
  .infer = infer,
  .forward = {forward<float>},
  .backward = {backward<float>},
  .reference_forward = forward<double>,
  .reference_backward = backward<double>,
  .cases = cases,
  .formula = "x sigmoid(beta x)",
};

troupe::tensor apply_swish(const troupe::tensor& x, float beta) {
  return troupe::apply(swish, {x}, swish_settings{beta});
}

// Once, at the start of the program: troupe::register_op(mine::swish);

} // namespace mine
// [doc:end]

namespace troupe {
namespace {

TEST(OwnOp, IsDifferentiatedLikeABuiltInOp) {
  tape t;
  const auto x = t.watch(tensor::of<double>({1}, {0}));
  const auto g = t.gradient(mine::apply_swish(x, 3), std::array{x});
  EXPECT_EQ(g[0].item<double>(), 0.5);
}

TEST(OwnOp, IsFoundByNameAfterRegistrationAndPassesItsCases) {
  EXPECT_EQ(find_op("swish"), nullptr);
  register_op(mine::swish);
  EXPECT_EQ(find_op("swish"), &mine::swish);
  EXPECT_THROW(register_op(mine::swish), std::logic_error);
  std::size_t tried = 0;
  for (const auto& x : op_grid()) {
    if (x.definition != &mine::swish)
      continue;
    run_of_op narrow{x, draw(x, dtype::float32)};
    run_of_op wide{x, draw(x, dtype::float64)};
    for (std::size_t i = 0; i < wide.call.out.size(); ++i)
      EXPECT_NEAR(narrow.call.out.data<float>()[i],
                  wide.call.out.data<double>()[i], 1e-6);
    ++tried;
  }
  EXPECT_EQ(tried, mine::cases.size());
}

TEST(OwnOp, IsRejectedWithoutAReferenceOrAName) {
  auto nameless = mine::swish;
  nameless.name = "";
  EXPECT_THROW(register_op(nameless), std::logic_error);
  auto unproved = mine::swish;
  unproved.name = "unproved";
  unproved.reference_forward = nullptr;
  EXPECT_THROW(register_op(unproved), std::logic_error);
}

TEST(OpApply, RejectsInvalidInputsWithAReason) {
  const auto error_of = [](auto&& call) -> std::string {
    try {
      call();
    } catch (const std::logic_error& e) {
      return e.what();
    }
    return "no error";
  };
  const auto x = tensor::zeros({2});
  EXPECT_EQ(error_of([&] {
              apply(mine::swish, {x, x});
            }),
            "swish: 2 inputs, not 1");
  EXPECT_EQ(error_of([&] { apply(mine::swish, {tensor{}}); }),
            "swish: input 0 is an empty tensor");
  EXPECT_EQ(error_of([&] { apply(mine::swish, {x.as(dtype::int32)}); }),
            "swish: input 0 is int32[2]; convert it with as()");
  EXPECT_EQ(error_of([&] { apply(mine::swish, {x}); }),
            "an op got the options of another op");
  EXPECT_EQ(error_of([&] {
              apply(*find_op("add"), {x, x.as(dtype::float64)});
            }),
            "add: inputs mix float32 and float64");
  EXPECT_EQ(error_of([&] {
              apply(*find_op("add"), {x, tensor::zeros({3})});
            }),
            "the shapes [2] and [3] do not broadcast");
}

} // namespace
} // namespace troupe
