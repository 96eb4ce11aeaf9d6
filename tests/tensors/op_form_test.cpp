#include "error_of.hpp"
#include "troupe/tensors/op_check.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/ops/reduce.hpp"
#include "troupe/tensors/tape.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>

// Ops with many inputs, several outputs, large options, several saved values,
// and dtypes other than floats.

namespace troupe {
namespace {

// -- eight inputs, three outputs ----------------------------------------------

/// Weights of the inputs: more than 64 bytes, and not trivially copyable.
struct weights {
  std::vector<double> list;
};

op_outputs infer_statistics(std::span<const tensor_spec> in,
                            const op_options&) {
  op_outputs out;
  out.add(in[0]);
  out.add(in[0]);
  out.add({in[0].dims, dtype::int64});
  return out;
}

/// out[0] = sum of w[i] in[i], out[1] = product of all in[i], out[2] = index of
/// the largest input. Saves the product of all others for each input.
template <class T>
void statistics(op_call& c) {
  const auto& w = c.options.as<weights>().list;
  auto sum = c.out[0].mutable_data<T>(), product = c.out[1].mutable_data<T>();
  auto largest = c.out[2].mutable_data<std::int64_t>();
  for (const auto& x : c.in)
    c.saved.push_back(tensor{x.spec()});
  for (std::size_t at = 0; at < sum.size(); ++at) {
    sum[at] = 0;
    product[at] = 1;
    largest[at] = 0;
    for (std::size_t i = 0; i < c.in.size(); ++i) {
      const auto x = c.in[i].data<T>()[at];
      sum[at] += T(w[i]) * x;
      product[at] *= x;
      if (x > c.in[std::size_t(largest[at])].data<T>()[at])
        largest[at] = std::int64_t(i);
      T others = 1;
      for (std::size_t j = 0; j < c.in.size(); ++j)
        others *= j == i ? 1 : c.in[j].data<T>()[at];
      c.saved[i].mutable_data<T>()[at] = others;
    }
  }
}

template <class T>
void statistics_backward(op_call& c) {
  const auto& w = c.options.as<weights>().list;
  const auto gsum = c.grad_out[0].data<T>(), gproduct = c.grad_out[1].data<T>();
  ASSERT_FALSE(c.grad_out[2]) << "integers have no gradient";
  for (std::size_t i = 0; i < c.grad_in.size(); ++i) {
    if (!c.wants(i))
      continue;
    auto g = c.grad_in[i].mutable_data<T>();
    const auto others = c.saved[i].data<T>();
    for (std::size_t at = 0; at < g.size(); ++at)
      g[at] = (c.accumulates(i) ? g[at] : 0) + T(w[i]) * gsum[at]
              + others[at] * gproduct[at];
  }
}

constexpr std::array statistics_kernels{
  op_kernels{dtype::float32, statistics<float>, statistics_backward<float>},
  op_kernels{dtype::float64, statistics<double>, statistics_backward<double>},
  op_kernels{dtype::int64, statistics<std::int64_t>},
};

const weights eight_weights{{1, 2, 3, 4, 5, 6, 7, 8}};
const std::array statistics_cases{
  op_case{std::vector<shape>(8, shape{3, 5}), eight_weights, -2, 2},
  op_case{std::vector<shape>(8, shape{}), eight_weights, -2, 2},
  op_case{std::vector<shape>(8, shape{0, 2}), eight_weights, -2, 2},
};

const op statistics_of{
  .name = "statistics",
  .repeats_last_input = true,
  .infer = infer_statistics,
  .kernels = statistics_kernels,
  .saves_inputs = false,
  .cases = statistics_cases,
};

TEST(OpForm, AnOpWithEightInputsAndThreeOutputsPassesTheChecks) {
  EXPECT_EQ(check_op(statistics_of), std::vector<std::string>{});
}

/// Eight scalars: 1 to 8.
tensors one_to_eight(dtype type = dtype::float64) {
  tensors out;
  for (int i = 1; i <= 8; ++i)
    out.push_back(tensor::full({}, i, type));
  return out;
}

TEST(OpForm, ATapeAddsTheGradientsOfAllOutputs) {
  tape t;
  tensors x;
  for (const auto& one : one_to_eight())
    x.push_back(t.watch(one));
  const auto y = apply_all(statistics_of, x, eight_weights);
  EXPECT_EQ(y[0].item<double>(), 204); // the sum of i^2
  EXPECT_EQ(y[1].item<double>(), 40'320);
  EXPECT_EQ(y[2].item<std::int64_t>(), 7);
  EXPECT_EQ(y[2].trace(), 0u) << "a tape tracks integers";
  const auto g = t.gradient(y[0] * 10.0 + y[1], x);
  for (std::size_t i = 0; i < 8; ++i)
    EXPECT_EQ(g[i].item<double>(),
              10.0 * double(i + 1) + 40'320.0 / double(i + 1));
}

TEST(OpForm, TheGradientOfAnOutputThatIsNotUsedIsZero) {
  for (const std::size_t used : {0u, 1u}) {
    tape t;
    tensors x;
    for (const auto& one : one_to_eight())
      x.push_back(t.watch(one));
    const auto y = apply_all(statistics_of, x, eight_weights);
    const auto g = t.gradient(y[used], x);
    for (std::size_t i = 0; i < 8; ++i)
      EXPECT_EQ(g[i].item<double>(),
                used == 0 ? double(i + 1) : 40'320.0 / double(i + 1));
  }
}

TEST(OpForm, AnInputThatOccursTwiceGetsBothGradients) {
  tape t;
  const auto a = t.watch(tensor::full({}, 3, dtype::float64));
  const auto y = apply_all(statistics_of, std::array{a, a}, weights{{1, 2}});
  const auto g = t.gradient(y[0] + y[1], std::array{a});
  EXPECT_EQ(g[0].item<double>(), 1 + 2 + 2 * 3);
}

TEST(OpForm, KernelsAreChosenByTheDtypeOfTheCall) {
  const auto y =
    apply_all(statistics_of, one_to_eight(dtype::int64), eight_weights);
  EXPECT_EQ(y[0].type(), dtype::int64);
  EXPECT_EQ(y[1].item<std::int64_t>(), 40'320);
  auto mixed = one_to_eight();
  mixed.back() = mixed.back().as(dtype::int64);
  EXPECT_EQ(error_of([&] { apply_all(statistics_of, mixed, eight_weights); }),
            "statistics: inputs mix float64 and int64");
  EXPECT_EQ(error_of([&] {
              apply_all(statistics_of, one_to_eight(dtype::uint8),
                        eight_weights);
            }),
            "statistics: input 0 is uint8[], not float32 or float64 or int64; "
            "convert it with as()");
}

TEST(OpForm, RejectsAnotherNumberOfInputsOrOutputs) {
  EXPECT_EQ(error_of([&] { apply_all(statistics_of, {}, eight_weights); }),
            "statistics: 0 inputs, not 1 or more");
  const auto x = one_to_eight();
  EXPECT_EQ(error_of([&] { apply(statistics_of, x, eight_weights); }),
            "statistics: 3 outputs; call apply_all, which returns them");
}

TEST(OpForm, AnOpWithAnotherNumberOfOutputsIsNotRun) {
  static int runs = 0;
  constexpr std::array kernels{
    op_kernels{dtype::float64, [](op_call&) { ++runs; }}};
  auto counted = statistics_of;
  counted.kernels = kernels;
  EXPECT_NE(error_of([&] { apply(counted, one_to_eight(), eight_weights); }),
            "no error");
  EXPECT_EQ(runs, 0);
}

TEST(OpForm, AKernelOfAnotherDeviceIsNotChosen) {
  auto kernels = std::vector<op_kernels>{
    {dtype::float64, nullptr, nullptr, device_kind::cuda}};
  kernels.insert(kernels.end(), statistics_kernels.begin(),
                 statistics_kernels.end());
  auto on_two_devices = statistics_of;
  on_two_devices.kernels = kernels;
  const auto y = apply_all(on_two_devices, one_to_eight(), eight_weights);
  EXPECT_EQ(y[0].item<double>(), 204);
}

template <std::size_t Bytes>
struct sized {
  std::array<std::byte, Bytes> bytes{};
};

struct alignas(64) aligned {
  double value = 0;
};

TEST(OpForm, OptionsOfAnySizeAreReadBack) {
  const auto check = []<class T>(const T& x) {
    op_options kept;
    {
      const op_options given{x};
      kept = given;
    }
    const auto moved = std::move(kept);
    EXPECT_EQ(std::memcmp(&moved.as<T>(), &x, sizeof x), 0);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&moved.as<T>()) % alignof(T),
              0u);
  };
  sized<64> small;
  small.bytes.fill(std::byte{7});
  check(small);
  sized<65> large;
  large.bytes.fill(std::byte{8});
  check(large);
  aligned far;
  std::memset(static_cast<void*>(&far), 0, sizeof far);
  far.value = 9;
  check(far);
}

TEST(OpForm, CopiesOfLargeOptionsShareThem) {
  const op_options first{eight_weights};
  const auto second = first;
  EXPECT_EQ(&first.as<weights>(), &second.as<weights>());
  EXPECT_EQ(second.as<weights>().list.size(), 8u);
  EXPECT_EQ(error_of([&] { second.as<int>(); }),
            "an op got the options of another op");
}

// -- outputs of different shapes, and views
// ------------------------------------

/// Splits the rows of x: 2 rows, and the others.
op_outputs infer_split(std::span<const tensor_spec> in, const op_options&) {
  op_outputs out{in[0].dims.with_extent(0, 2), in[0].type};
  out.add({in[0].dims.with_extent(0, in[0].dims[0] - 2), in[0].type});
  return out;
}

void split_view(op_call& c) {
  c.out.push_back(c.in[0].slice(0, 2));
  c.out.push_back(c.in[0].slice(2, c.in[0].dims()[0]));
}

template <class T>
void split_backward(op_call& c) {
  auto gx = c.grad_in[0].mutable_data<T>();
  std::size_t at = 0;
  for (const auto& part : c.grad_out)
    for (const auto g : part.data<T>()) {
      gx[at] = (c.accumulates(0) ? gx[at] : 0) + g;
      ++at;
    }
}

constexpr std::array split_kernels{
  op_kernels{dtype::float32, nullptr, split_backward<float>},
  op_kernels{dtype::float64, nullptr, split_backward<double>},
};

const std::array split_cases{op_case{{{5}}, {}}, op_case{{{3, 4}}, {}}};

const op split{
  .name = "split",
  .infer = infer_split,
  .kernels = split_kernels,
  .saves_inputs = false,
  .view = split_view,
  .cases = split_cases,
};

TEST(OpForm, AViewMayHaveTwoOutputs) {
  EXPECT_EQ(check_op(split), std::vector<std::string>{});
  const auto x = tensor::of<float>({3}, {1, 2, 3});
  const auto parts = apply_all(split, {x});
  EXPECT_TRUE(parts[0].shares_storage_with(x));
  EXPECT_EQ(parts[1].data<float>()[0], 3);
}

TEST(OpForm, EachGradientOfAnOutputHasItsShape) {
  for (const std::size_t used : {0u, 1u}) {
    tape t;
    const auto x = t.watch(tensor::of<float>({5}, {1, 2, 3, 4, 5}));
    const auto y = apply_all(split, {x})[used] * 2.0;
    const auto g = t.gradient(y, std::array{x});
    for (std::size_t i = 0; i < 5; ++i)
      EXPECT_EQ(g[0].data<float>()[i], (i < 2) == (used == 0) ? 2 : 0);
  }
}

TEST(OpForm, AViewOfIntegersNeedsNoKernel) {
  const auto x = tensor::of<std::int64_t>({3}, {1, 2, 3});
  EXPECT_EQ(apply_all(split, {x})[1].data<std::int64_t>()[0], 3);
  EXPECT_EQ(apply(*find_op("clone"), {tensor::full({1}, 1)}).size(), 1u);
}

TEST(OpForm, AViewWithAnotherNumberOfOutputsIsAnError) {
  auto wrong = split;
  wrong.view = [](op_call& c) { c.out.push_back(c.in[0]); };
  EXPECT_EQ(error_of([&] { apply_all(wrong, {tensor::full({3}, 1)}); }),
            "split: the shape rule says 2 outputs, but there are 1");
}

TEST(OpForm, AWrongGradientOfAViewIsFound) {
  constexpr std::array kernels{
    split_kernels[0],
    op_kernels{dtype::float64, nullptr,
               [](op_call& c) {
                 split_backward<double>(c);
                 c.grad_in[0].mutable_data<double>()[0] += 1;
               }},
  };
  auto wrong = split;
  wrong.kernels = kernels;
  EXPECT_FALSE(check_op(wrong).empty());
  wrong.kernels = wrong.kernels.first(1);
  EXPECT_EQ(check_op(wrong),
            std::vector<std::string>{
              "split: it needs kernels for float64 on the CPU, which define "
              "those for float32"});
}

TEST(OpForm, AKernelDoesNotRunIfItsGradientsAreNotRequested) {
  static int runs = 0;
  auto counted = split;
  constexpr std::array kernels{
    op_kernels{dtype::float32, nullptr, [](op_call& c) {
                 ++runs;
                 split_backward<float>(c);
               }}};
  counted.kernels = kernels;
  tape t;
  const auto x = t.watch(tensor::full({3}, 1)),
             y = t.watch(tensor::full({}, 1));
  const auto loss = reduce_sum(apply_all(counted, {x})[0]) + y;
  EXPECT_EQ(t.gradient(loss, std::array{y})[0].item<float>(), 1);
  EXPECT_EQ(runs, 0);
}

// -- what a kernel reads must be saved
// -----------------------------------------

template <class T>
void exponential_forward(op_call& c) {
  c.out[0].mutable_data<T>()[0] = std::exp(c.in[0].data<T>()[0]);
}

template <class T>
void exponential_backward(op_call& c) {
  auto& g = c.grad_in[0].mutable_data<T>()[0];
  g = (c.accumulates(0) ? g : 0)
      + c.out[0].data<T>()[0] * c.grad_out[0].data<T>()[0];
}

constexpr std::array exponential_kernels{
  op_kernels{dtype::float32, exponential_forward<float>,
             exponential_backward<float>},
  op_kernels{dtype::float64, exponential_forward<double>,
             exponential_backward<double>},
};

const std::array exponential_cases{op_case{{{1}}, {}}};

/// exp(x), whose gradient reads the output.
op exponential(bool saves_outputs) {
  return {.name = "exponential",
          .infer = [](std::span<const tensor_spec> in,
                      const op_options&) -> op_outputs { return in[0]; },
          .kernels = exponential_kernels,
          .saves_inputs = false,
          .saves_outputs = saves_outputs,
          .cases = exponential_cases};
}

TEST(OpForm, AnOutputThatIsNotSavedIsEmptyInABackwardKernel) {
  EXPECT_EQ(check_op(exponential(true)), std::vector<std::string>{});
  const auto failures = check_op(exponential(false));
  ASSERT_FALSE(failures.empty());
  EXPECT_NE(failures[0].find("an empty tensor read as"), std::string::npos)
    << failures[0];
  const auto definition = exponential(false);
  tape t;
  const auto x = t.watch(tensor::full({1}, 0));
  const auto y = apply(definition, {x});
  EXPECT_EQ(error_of([&] { t.gradient(y, std::array{x}); }),
            "an empty tensor read as float32");
}

// -- inputs with a dtype of their own
// ------------------------------------------

/// x * scale, where the scale is float32 in calls of any dtype.
template <class T>
void scale(op_call& c) {
  const auto by = T(c.in[1].data<float>()[0]);
  for (std::size_t i = 0; i < c.out[0].size(); ++i)
    c.out[0].mutable_data<T>()[i] = c.in[0].data<T>()[i] * by;
}

template <class T>
void scale_backward(op_call& c) {
  const auto x = c.in[0].data<T>(), gy = c.grad_out[0].data<T>();
  if (c.wants(0))
    for (std::size_t i = 0; i < x.size(); ++i) {
      auto& g = c.grad_in[0].mutable_data<T>()[i];
      g = (c.accumulates(0) ? g : 0) + gy[i] * T(c.in[1].data<float>()[0]);
    }
  if (c.wants(1)) {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      sum += double(x[i]) * double(gy[i]);
    auto& g = c.grad_in[1].mutable_data<float>()[0];
    g = (c.accumulates(1) ? g : 0) + float(sum);
  }
}

constexpr std::array scale_inputs{op_input{},
                                  op_input{.dtypes = {dtype::float32}}};
constexpr std::array scale_kernels{
  op_kernels{dtype::float32, scale<float>, scale_backward<float>},
  op_kernels{dtype::float64, scale<double>, scale_backward<double>},
};
const op scaled{
  .name = "scaled",
  .inputs = scale_inputs,
  .infer = [](std::span<const tensor_spec> in,
              const op_options&) -> op_outputs { return in[0]; },
  .kernels = scale_kernels,
};

TEST(OpForm, AFloatWithADtypeOfItsOwnHasAGradient) {
  for (const auto type : {dtype::float32, dtype::float64, dtype::bfloat16}) {
    tape t;
    const auto x = t.watch(tensor::full({2}, 3, type));
    const auto by = t.watch(tensor::full({1}, 5));
    const auto y = apply(scaled, {x, by});
    EXPECT_EQ(y.type(), type);
    const auto g = t.gradient(y, std::array{x, by});
    EXPECT_EQ(g[0].as(dtype::float32).data<float>()[1], 5);
    EXPECT_EQ(g[1].item<float>(), 6);
  }
}

// -- bools, integers, and inputs without gradient -----------------------------

// out[0] = x where the condition holds, otherwise the elements of `table` at
// `index`; out[1] = the other ones. Neither `table` nor out[1] has a gradient.

op_outputs infer_select(std::span<const tensor_spec> in, const op_options&) {
  op_outputs out{in[1]};
  out.add(in[1], false);
  return out;
}

template <class T>
void select(op_call& c) {
  const auto condition = c.in[0].data<bool>();
  const auto x = c.in[1].data<T>(), table = c.in[2].data<T>();
  const auto index = c.in[3].as(dtype::int64);
  const auto at = index.data<std::int64_t>();
  auto y = c.out[0].mutable_data<T>(), other = c.out[1].mutable_data<T>();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto found = table[std::size_t(at[i])];
    y[i] = condition[i] ? x[i] : found;
    other[i] = condition[i] ? found : x[i];
  }
}

template <class T>
void select_backward(op_call& c) {
  ASSERT_FALSE(c.grad_out[1]) << "an output without gradient";
  ASSERT_FALSE(c.wants(0) || c.wants(2) || c.wants(3));
  if (!c.wants(1))
    return;
  const auto condition = c.in[0].data<bool>();
  const auto gy = c.grad_out[0].data<T>();
  auto gx = c.grad_in[1].mutable_data<T>();
  for (std::size_t i = 0; i < gx.size(); ++i)
    gx[i] = (c.accumulates(1) ? gx[i] : 0) + (condition[i] ? gy[i] : 0);
}

constexpr std::array select_inputs{
  op_input{.dtypes = {dtype::boolean}},
  op_input{},
  op_input{.differentiable = false},
  op_input{.dtypes = {dtype::int32, dtype::int64}},
};

constexpr std::array select_kernels{
  op_kernels{dtype::float32, select<float>, select_backward<float>},
  op_kernels{dtype::float64, select<double>, select_backward<double>},
  op_kernels{dtype::int64, select<std::int64_t>},
  op_kernels{dtype::boolean, select<bool>},
};

const std::array select_cases{
  op_case{{{7}, {7}, {4}, {7}}, {}, -4, 4},
  op_case{{{3, 5}, {3, 5}, {4}, {3, 5}}, {}, -4, 4},
};

const op selection{
  .name = "select",
  .inputs = select_inputs,
  .infer = infer_select,
  .kernels = select_kernels,
  .cases = select_cases,
};

TEST(OpForm, AnOpOnBoolsAndIntegersPassesTheChecks) {
  EXPECT_EQ(check_op(selection), std::vector<std::string>{});
}

// float64 does not represent 2^62 + 1.
TEST(OpForm, IntegersAreNotConvertedToFloats) {
  const std::int64_t large = (std::int64_t{1} << 62) + 1;
  const auto y =
    apply_all(selection, std::array{tensor::of<bool>({1}, {true}),
                                    tensor::of<std::int64_t>({1}, {large}),
                                    tensor::of<std::int64_t>({1}, {0}),
                                    tensor::of<std::int32_t>({1}, {0})});
  EXPECT_EQ(y[0].item<std::int64_t>(), large);
}

TEST(OpForm, AWrongKernelForIntegersIsFound) {
  auto kernels = select_kernels;
  kernels[2].forward = [](op_call& c) {
    select<std::int64_t>(c);
    c.out[1].mutable_data<std::int64_t>()[0] += 1;
  };
  auto wrong = selection;
  wrong.kernels = kernels;
  const auto failures = check_op(wrong);
  ASSERT_FALSE(failures.empty());
  EXPECT_NE(failures[0].find("the int64 kernel's output 1"), std::string::npos)
    << failures[0];
}

TEST(OpForm, AnInputWithoutGradientMustNotBeRecorded) {
  const auto condition = tensor::of<bool>({1}, {true});
  const auto index = tensor::of<std::int32_t>({1}, {0});
  tape t;
  const auto x = t.watch(tensor::full({1}, 1)),
             table = t.watch(tensor::full({1}, 2));
  EXPECT_EQ(error_of([&] {
              apply_all(selection, std::array{condition, x, table, index});
            }),
            "select: input 2 has no gradient, but a tape records it; pass its "
            "detach()");
  const auto y =
    apply_all(selection, std::array{condition, x, table.detach(), index});
  EXPECT_EQ(y[1].trace(), 0u) << "a tape tracks an output without gradient";
  EXPECT_EQ(t.gradient(y[0], std::array{x})[0].item<float>(), 1);
}

TEST(OpForm, ACallWhoseOutputsHaveNoGradientMustNotBeRecorded) {
  auto constant = selection;
  constant.infer = [](std::span<const tensor_spec> in, const op_options&) {
    op_outputs out;
    out.add(in[1], false);
    out.add(in[1], false);
    return out;
  };
  tape t;
  const auto x = t.watch(tensor::full({1}, 1));
  EXPECT_EQ(
    error_of([&] {
      apply_all(constant,
                {tensor::of<bool>({1}, {true}), x, tensor::full({1}, 1),
                 tensor::of<std::int32_t>({1}, {0})});
    }),
    "select: a tape records its input, but its outputs have no gradient; pass "
    "the input's detach()");
}

TEST(OpForm, AnInputWithDtypesOfItsOwnHasOneOfThem) {
  const auto x = tensor::full({1}, 1);
  EXPECT_EQ(
    error_of([&] {
      apply_all(selection, std::array{tensor::of<bool>({1}, {true}), x, x, x});
    }),
    "select: input 3 is float32[1], not int32 or int64");
}

TEST(OpForm, RegistrationNeedsADefinitionOfEachKernel) {
  auto unproved = selection;
  unproved.name = "unproved";
  unproved.kernels = unproved.kernels.first(1);
  EXPECT_EQ(error_of([&] { register_op(unproved); }),
            "unproved: the kernels for float32 need a reference: kernels for "
            "float64 on the CPU");
  auto untyped = selection;
  untyped.name = "untyped";
  untyped.inputs = untyped.inputs.first(1);
  EXPECT_EQ(error_of([&] { register_op(untyped); }),
            "untyped: an op needs an input that has the dtype of the call");
}

} // namespace
} // namespace troupe
