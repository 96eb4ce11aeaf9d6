#include "troupe/training/parameter_server/server_tasks.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <stdexcept>

namespace troupe {

namespace {

constexpr std::size_t score_numbers = 2, replica_numbers = 12,
                      report_numbers = 2;

[[noreturn]] void reject(const std::string& what) {
  throw std::invalid_argument("a closure of a server_model: " + what);
}

/// Limits the description of a task.
constexpr std::int64_t max_description_bytes = std::int64_t{4} << 20;
constexpr std::int64_t max_replicas = std::numeric_limits<std::int32_t>::max();

tensor to_tensor(const std::string& text) {
  tensor out{{static_cast<std::int64_t>(text.size())}, dtype::uint8};
  std::ranges::copy(text, out.mutable_data<std::uint8_t>().begin());
  return out;
}

std::string to_text(const tensor& from) {
  if (!from || from.type() != dtype::uint8 || from.dims().rank() != 1
      || from.dims().front() > max_description_bytes)
    reject("the description is not uint8[n]");
  const auto text = from.data<std::uint8_t>();
  return {text.begin(), text.end()};
}

template <class... T>
tensor to_tensor_of_numbers(T... xs) {
  return tensor::of<std::int64_t>({sizeof...(xs)},
                                  std::array{static_cast<std::int64_t>(xs)...});
}

/// @returns numbers that are not negative.
std::span<const std::int64_t> numbers_in(const tensor& from,
                                         std::size_t count) {
  if (!from
      || from.spec()
           != tensor_spec{{static_cast<std::int64_t>(count)}, dtype::int64})
    reject("the numbers are not int64[" + std::to_string(count) + "]");
  const auto out = from.data<std::int64_t>();
  if (std::ranges::any_of(out, [](auto x) { return x < 0; }))
    reject("a number is negative");
  return out;
}

void check_count(const tensors& from, std::size_t count) {
  if (from.size() != count)
    reject(std::to_string(from.size()) + " tensors in place of "
           + std::to_string(count));
}

std::uint64_t unsigned_of(std::int64_t x) {
  return static_cast<std::uint64_t>(x);
}

} // namespace

tensors encode(const score_task& x) {
  return {to_tensor_of_numbers(x.index, x.batches), to_tensor(x.description)};
}

score_task decode_score_task(const tensors& from) {
  check_count(from, 2);
  const auto n = numbers_in(from[0], score_numbers);
  return {unsigned_of(n[0]), unsigned_of(n[1]), to_text(from[1])};
}

tensors encode(const train_task& x) {
  return {
    to_tensor_of_numbers(x.training, x.replica, x.replicas, x.first, x.last,
                         x.is_synchronous, x.has_table_consistency, x.epoch,
                         x.index, x.batches, x.model_step, x.throws_on_nan),
    tensor::of<float>({static_cast<std::int64_t>(x.learning_rates.size())},
                      x.learning_rates),
    to_tensor(x.description)};
}

train_task decode_train_task(const tensors& from) {
  check_count(from, 3);
  const auto n = numbers_in(from[0], replica_numbers);
  if (n[2] == 0 || n[2] > max_replicas || n[1] >= n[2])
    reject("there is no such replica");
  if (n[4] < n[3] || n[4] > n[9])
    reject("the steps are not those of an epoch");
  if (!from[1] || from[1].type() != dtype::float32
      || from[1].dims().rank() != 1)
    reject("the learning rates are not float32[n]");
  const auto rates = from[1].data<float>();
  if (!rates.empty() && rates.size() != std::size_t(n[4] - n[3]))
    reject("there are " + std::to_string(rates.size()) + " learning rates for "
           + std::to_string(n[4] - n[3]) + " steps");
  if (std::ranges::any_of(rates,
                          [](float x) { return !std::isfinite(x) || x < 0; }))
    reject("a learning rate is negative or not finite");
  return {.training = unsigned_of(n[0]),
          .replica = static_cast<std::uint32_t>(n[1]),
          .replicas = static_cast<std::uint32_t>(n[2]),
          .first = unsigned_of(n[3]),
          .last = unsigned_of(n[4]),
          .is_synchronous = n[5] != 0,
          .has_table_consistency = n[6] != 0,
          .epoch = unsigned_of(n[7]),
          .index = unsigned_of(n[8]),
          .batches = unsigned_of(n[9]),
          .model_step = unsigned_of(n[10]),
          .throws_on_nan = n[11] != 0,
          .learning_rates = {rates.begin(), rates.end()},
          .description = to_text(from[2])};
}

tensors encode(const replica_report& x) {
  auto out = encode(std::vector{x.metrics}, x.metrics.sums.size());
  out.insert(out.begin(), to_tensor_of_numbers(x.step, x.rows));
  return out;
}

replica_report decode_replica_report(const tensors& from, std::size_t sums) {
  check_count(from, 2);
  const auto n = numbers_in(from[0], report_numbers);
  return {unsigned_of(n[0]), n[1], decode_metrics({from[1]}, 1, sums)[0]};
}

tensors encode(const std::vector<step_metrics>& all, std::size_t sums) {
  tensor out{{static_cast<std::int64_t>(all.size()),
              static_cast<std::int64_t>(1 + sums)},
             dtype::float64};
  auto into = out.mutable_data<double>().begin();
  for (const auto& one : all) {
    *into++ = static_cast<double>(one.examples);
    into = std::ranges::copy(one.sums, into).out;
  }
  return {out};
}

std::vector<step_metrics> decode_metrics(const tensors& from, std::size_t count,
                                         std::size_t sums) {
  check_count(from, 1);
  const tensor_spec expected{
    {static_cast<std::int64_t>(count), static_cast<std::int64_t>(1 + sums)},
    dtype::float64};
  if (!from[0] || from[0].spec() != expected)
    reject("the metrics are not " + to_string(expected));
  constexpr auto max_examples = 9007199254740992.; // 2^53
  std::vector<step_metrics> out;
  for (auto rest = from[0].data<double>(); !rest.empty();
       rest = rest.subspan(1 + sums)) {
    if (!(rest[0] >= 0 && rest[0] <= max_examples))
      reject("an impossible number of examples");
    const auto values = rest.subspan(1, sums);
    out.push_back(
      {static_cast<std::uint64_t>(rest[0]), {values.begin(), values.end()}});
  }
  return out;
}

} // namespace troupe
