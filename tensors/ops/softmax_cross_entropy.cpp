#include "troupe/tensors/ops/softmax_cross_entropy.hpp"

#include "troupe/tensors/base/kernels.hpp"
#include "troupe/tensors/ops/check.hpp"

#include <algorithm>
#include <cmath>

namespace troupe {

namespace {

// -- softmax_cross_entropy ----------------------------------------------------

[[noreturn]] void out_of_range(std::span<const std::int32_t> labels,
                               std::size_t row, std::size_t classes) {
  throw std::logic_error("label " + std::to_string(labels[row]) + " in row "
                         + std::to_string(row) + "; there are "
                         + std::to_string(classes) + " classes, from 0");
}

op_outputs infer_loss(std::span<const tensor_spec> in, const op_options&) {
  const auto &x = in[0].dims, &labels = in[1].dims;
  ops::require(x.rank() == 2 && labels.rank() == 1 && x[0] == labels[0]
                 && x[1] > 0,
               "softmax_cross_entropy logits [n, classes], labels [n]", in);
  return {labels, in[0].type};
}

void loss_forward(op_call& c) {
  c.saved.push_back(tensor{c.in[0].spec()});
  const auto labels = c.in[1].data<std::int32_t>();
  const auto classes = std::size_t(c.in[0].dims()[1]);
  const auto done = kernels().softmax_cross_entropy(
    c.in[0].data<float>().data(), labels.data(), labels.size(), classes,
    c.out[0].mutable_data<float>().data(),
    c.saved[0].mutable_data<float>().data());
  if (done < labels.size())
    out_of_range(labels, done, classes);
}

void loss_backward(op_call& c) {
  if (c.wants(0))
    kernels().scale_rows(c.grad_in[0].mutable_data<float>().data(),
                         c.saved[0].data<float>().data(),
                         c.grad_out[0].data<float>().data(),
                         c.grad_out[0].size(),
                         std::size_t(c.saved[0].dims()[1]), c.accumulates(0));
}

/// Computes exp(x - maximum) of one row, and returns the sum.
double exponentials(std::span<const double> row, std::span<double> out) {
  const auto maximum = std::ranges::max(row);
  double sum = 0;
  for (std::size_t j = 0; j < row.size(); ++j)
    sum += out[j] = std::exp(row[j] - maximum);
  return sum;
}

void loss_reference_forward(op_call& c) {
  const auto x = c.in[0].data<double>();
  const auto labels = c.in[1].data<std::int32_t>();
  const auto classes = std::size_t(c.in[0].dims()[1]);
  std::vector<double> e(classes);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] < 0 || std::size_t(labels[i]) >= classes)
      out_of_range(labels, i, classes);
    const auto row = x.subspan(i * classes, classes);
    c.out[0].mutable_data<double>()[i] = std::log(exponentials(row, e))
                                         + std::ranges::max(row)
                                         - row[std::size_t(labels[i])];
  }
}

void loss_reference_backward(op_call& c) {
  const auto x = c.in[0].data<double>(), gy = c.grad_out[0].data<double>();
  const auto labels = c.in[1].data<std::int32_t>();
  const auto classes = std::size_t(c.in[0].dims()[1]);
  if (!c.wants(0))
    return;
  auto gx = c.grad_in[0].mutable_data<double>();
  std::vector<double> e(classes);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto sum = exponentials(x.subspan(i * classes, classes), e);
    for (std::size_t j = 0; j < classes; ++j) {
      const auto g =
        gy[i] * (e[j] / sum - (j == std::size_t(labels[i]) ? 1 : 0));
      auto& to = gx[i * classes + j];
      to = c.accumulates(0) ? to + g : g;
    }
  }
}

const std::array loss_cases{
  op_case{{{1, 1}, {1}}, {}, -3, 1},
  op_case{{{5, 2}, {5}}, {}, -3, 2},
  op_case{{{7, 10}, {7}}, {}, -8, 10},
  op_case{{{33, 17}, {33}}, {}, -30, 17},
  op_case{{{3, 1000}, {3}}, {}, -3, 1000},
};

constexpr std::array loss_inputs{op_input{}, op_input{{dtype::int32}}};

constexpr std::array loss_kernels{
  op_kernels{dtype::float32, loss_forward, loss_backward},
  op_kernels{dtype::float64, loss_reference_forward, loss_reference_backward},
};

// -- softmax ------------------------------------------------------------------

op_outputs infer_softmax(std::span<const tensor_spec> in, const op_options&) {
  ops::require(in[0].dims.rank() == 2 && in[0].dims[1] > 0,
               "softmax [n, classes]", in);
  return in[0];
}

void softmax_forward(op_call& c) {
  kernels().softmax(
    c.out[0].mutable_data<float>().data(), c.in[0].data<float>().data(),
    std::size_t(c.in[0].dims()[0]), std::size_t(c.in[0].dims()[1]));
}

void softmax_reference_forward(op_call& c) {
  const auto x = c.in[0].data<double>();
  auto y = c.out[0].mutable_data<double>();
  const auto classes = std::size_t(c.in[0].dims()[1]);
  for (std::size_t at = 0; at < x.size(); at += classes) {
    const auto row = y.subspan(at, classes);
    const auto sum = exponentials(x.subspan(at, classes), row);
    for (auto& v : row)
      v /= sum;
  }
}

/// Computes gx = y (gy - sum(y gy)) for each row. y is the softmax of x, gy the
/// gradient of y, and gx the gradient of x.
template <class T>
void softmax_backward(op_call& c) {
  const auto y = c.out[0].data<T>(), gy = c.grad_out[0].data<T>();
  if (!c.wants(0))
    return;
  auto gx = c.grad_in[0].template mutable_data<T>();
  const auto classes = std::size_t(c.out[0].dims()[1]);
  for (std::size_t at = 0; at < y.size(); at += classes) {
    double dot = 0;
    for (std::size_t j = at; j < at + classes; ++j)
      dot += double(y[j]) * double(gy[j]);
    for (std::size_t j = at; j < at + classes; ++j) {
      const auto g = static_cast<T>(double(y[j]) * (double(gy[j]) - dot));
      gx[j] = c.accumulates(0) ? gx[j] + g : g;
    }
  }
}

/// The gradient reads the result, which was rounded to bfloat16.
op_case softmax_case(const shape& dims, float limit) {
  return {.in = {dims},
          .options = {},
          .low = -limit,
          .high = limit,
          .bfloat16_rounding = 0x1p-7};
}

const std::array softmax_cases{
  softmax_case({1, 1}, 3),
  softmax_case({5, 10}, 8),
  softmax_case({17, 33}, 30),
};

constexpr std::array softmax_kernels{
  op_kernels{dtype::float32, softmax_forward, softmax_backward<float>},
  op_kernels{dtype::float64, softmax_reference_forward,
             softmax_backward<double>},
};

} // namespace

const op ops::softmax_cross_entropy{
  .name = "softmax_cross_entropy",
  .inputs = loss_inputs,
  .infer = infer_loss,
  .kernels = loss_kernels,
  .cases = loss_cases,
  .formula = "-log softmax(x)[label]",
};

const op ops::softmax{
  .name = "softmax",
  .infer = infer_softmax,
  .kernels = softmax_kernels,
  .saves_inputs = false,
  .saves_outputs = true,
  .cases = softmax_cases,
  .formula = "exp(x) / sum(exp(x)) over the last axis",
};

tensor softmax_cross_entropy(const tensor& logits, const tensor& labels) {
  return apply(ops::softmax_cross_entropy, {logits, labels});
}

tensor softmax(const tensor& x) {
  return apply(ops::softmax, {x});
}

} // namespace troupe
