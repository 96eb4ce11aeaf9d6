#include "op_cases.hpp"
#include "troupe/tensors/op_check.hpp"
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

troupe::op_outputs infer(std::span<const troupe::tensor_spec> in,
                         const troupe::op_options&) {
  return in[0]; // the output has the shape of the input
}

template <class T>
void forward(op_call& c) {
  const T beta = c.options.as<swish_settings>().beta;
  const auto x = c.in[0].data<T>();
  auto y = c.out[0].mutable_data<T>();
  for (std::size_t i = 0; i < x.size(); ++i)
    y[i] = x[i] / (1 + std::exp(-beta * x[i]));
}

template <class T>
void backward(op_call& c) {
  const T beta = c.options.as<swish_settings>().beta;
  const auto x = c.in[0].data<T>(), gy = c.grad_out[0].data<T>();
  auto gx = c.grad_in[0].template mutable_data<T>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const T s = 1 / (1 + std::exp(-beta * x[i]));
    const T g = gy[i] * s * (1 + beta * x[i] * (1 - s));
    // The tape requests a sum with the existing gradient, or only the new one.
    gx[i] = c.accumulates(0) ? gx[i] + g : g;
  }
}

const std::array cases{
  troupe::op_case{{{1}}, swish_settings{1}, -3, 3},
  troupe::op_case{{{7, 5}}, swish_settings{2}, -3, 3},
};

// The kernels for float64 define the op: check_op compares the others with
// them.
constexpr std::array kernels{
  troupe::op_kernels{troupe::dtype::float32, forward<float>, backward<float>},
  troupe::op_kernels{troupe::dtype::float64, forward<double>, backward<double>},
};

const troupe::op swish{
  .name = "swish",
  .infer = infer,
  .kernels = kernels,
  .cases = cases,
  .formula = "x sigmoid(beta x)",
};

troupe::tensor apply_swish(const troupe::tensor& x, float beta) {
  return troupe::apply(swish, {x}, swish_settings{beta});
}

// Once, at the start of the program: troupe::register_op(mine::swish);
// In a test of the program: troupe::check_op(mine::swish) must return no text.

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
  EXPECT_EQ(check_op(mine::swish), std::vector<std::string>{});
}

/// Returns the failures of an op that differs from swish in some members.
template <class F>
std::vector<std::string> failures_of(F change) {
  auto changed = mine::swish;
  change(changed);
  return check_op(changed);
}

/// Returns true if there is a failure, and one contains each text.
bool name(const std::vector<std::string>& failures, std::string_view kernel,
          std::string_view problem) {
  for (const auto& one : failures)
    if (one.find(kernel) != one.npos && one.find(problem) != one.npos)
      return true;
  for (const auto& one : failures)
    ADD_FAILURE() << one;
  return false;
}

template <class T>
void wrong_backward(op_call& c) {
  mine::backward<T>(c);
  c.grad_in[0].mutable_data<T>()[0] *= T(1.001);
}

template <class T>
void overwriting_backward(op_call& c) {
  c.accumulate = {};
  mine::backward<T>(c);
}

void wrong_forward(op_call& c) {
  mine::forward<float>(c);
  c.out[0].mutable_data<float>()[0] += 0.01f;
}

void throwing_forward(op_call&) {
  throw std::runtime_error("no such device");
}

/// Returns the failures of swish with other kernels.
std::vector<std::string> failures_with(const op_kernels& narrow,
                                       const op_kernels& wide) {
  const std::array changed{narrow, wide};
  return failures_of([&](op& x) { x.kernels = changed; });
}

TEST(OpCheck, NamesTheWrongKernel) {
  const auto right = mine::kernels[0], reference = mine::kernels[1];
  const auto narrow = [](op_kernel forward, op_kernel backward) {
    return op_kernels{dtype::float32, forward, backward};
  };
  const auto wide = [](op_kernel forward, op_kernel backward) {
    return op_kernels{dtype::float64, forward, backward};
  };
  EXPECT_TRUE(
    name(failures_with(right, wide(reference.forward, wrong_backward<double>)),
         "swish, case 1 on [7, 5], seed 1001: the gradient of input "
         "0 is ",
         " at element 0, but central differences of the reference "
         "give "));
  EXPECT_TRUE(
    name(failures_with(narrow(right.forward, wrong_backward<float>), reference),
         "the float32 kernel's gradient of input 0", "the bound of the case"));
  EXPECT_TRUE(
    name(failures_with(narrow(wrong_forward, right.backward), reference),
         "the float32 kernel's result", "the bound of the case"));
  EXPECT_TRUE(name(
    failures_with(narrow(right.forward, overwriting_backward<float>),
                  reference),
    "the float32 gradient of input 0", "add to grad_in[0] if accumulates(0)"));
  EXPECT_TRUE(
    name(failures_with(right, wide(throwing_forward, reference.backward)),
         "swish, case 0", "an exception: no such device"));
}

TEST(OpCheck, NamesAMissingMember) {
  using texts = std::vector<std::string>;
  EXPECT_EQ(failures_of([](op& x) { x.cases = {}; }),
            texts{"swish: it has no cases; give shapes of inputs with which it "
                  "can be checked"});
  EXPECT_EQ(
    failures_with(mine::kernels[0], {dtype::float64, mine::kernels[1].forward}),
    texts{"swish: only one of its kernels for float32 and float64 has "
          "a gradient (backward); give both, or none if it is not "
          "differentiable"});
  EXPECT_EQ(failures_of([](op& x) { x.kernels = x.kernels.first(1); }),
            texts{"swish: it needs kernels for float64 on the CPU, which "
                  "define those for float32"});
  EXPECT_EQ(failures_of([](op& x) { x.kernels = {}; }),
            texts{"swish: it has no kernels"});
  EXPECT_EQ(failures_of([](op& x) { x.inputs = two_inputs; }),
            texts{"swish: a case has 1 inputs, but the op has 2"});
  EXPECT_EQ(failures_of([](op& x) { x.infer = nullptr; }),
            texts{"swish: it has no shape rule (infer)"});
}

TEST(OwnOp, IsRejectedWithoutAReferenceOrAName) {
  auto nameless = mine::swish;
  nameless.name = "";
  EXPECT_THROW(register_op(nameless), std::logic_error);
  auto unproved = mine::swish;
  unproved.name = "unproved";
  unproved.kernels = unproved.kernels.first(1);
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
            "swish: input 0 is int32[2], not float32 or float64; convert it "
            "with as()");
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
