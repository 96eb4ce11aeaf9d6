#include "troupe/training/parameter_server/batch_task.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <vector>

namespace troupe {

namespace {

constexpr std::int64_t numbers = 8;

[[noreturn]] void reject(const char* what) {
  throw std::invalid_argument(std::string{"a task of a server_model: "} + what);
}

/// Limits the description of a task.
constexpr std::int64_t max_description_bytes = std::int64_t{4} << 20;

tensor to_tensor(const std::string& text) {
  tensor out{{static_cast<std::int64_t>(text.size())}, dtype::uint8};
  std::ranges::copy(text, out.mutable_data<std::uint8_t>().begin());
  return out;
}

} // namespace

tensors encode(const batch_task& x) {
  const auto number = [](auto n) { return static_cast<std::int64_t>(n); };
  return {tensor::of<std::int64_t>(
            {numbers},
            std::vector{number(x.what), number(x.epoch), number(x.index),
                        number(x.batches), number(x.step), number(x.replica),
                        number(x.replicas), number(x.throws_on_nan)}),
          tensor::of<float>({1}, std::vector{x.learning_rate}),
          to_tensor(x.description)};
}

batch_task decode_batch_task(const tensors& from) {
  if (from.size() != 3 || !from[0] || !from[1] || !from[2]
      || from[0].spec() != tensor_spec{{numbers}, dtype::int64}
      || from[1].spec() != tensor_spec{{1}, dtype::float32}
      || from[2].type() != dtype::uint8 || from[2].dims().rank() != 1
      || from[2].dims().front() > max_description_bytes)
    reject("the inputs are not int64[8], float32[1] and uint8[n]");
  const auto n = from[0].data<std::int64_t>();
  const auto max_replica =
    std::int64_t{std::numeric_limits<std::int32_t>::max()};
  if (std::ranges::any_of(n, [](auto x) { return x < 0; }))
    reject("a number is negative");
  if (n[0] > static_cast<std::int64_t>(batch_task::kind::contribute_dense))
    reject("the kind is unknown");
  if (n[6] == 0 || n[6] > max_replica || n[5] >= n[6])
    reject("there is no such replica");
  batch_task out{.what = static_cast<batch_task::kind>(n[0]),
                 .epoch = static_cast<std::uint64_t>(n[1]),
                 .index = static_cast<std::uint64_t>(n[2]),
                 .batches = static_cast<std::uint64_t>(n[3]),
                 .step = static_cast<std::uint64_t>(n[4]),
                 .replica = static_cast<std::uint32_t>(n[5]),
                 .replicas = static_cast<std::uint32_t>(n[6]),
                 .learning_rate = from[1].data<float>()[0],
                 .throws_on_nan = n[7] != 0};
  const auto text = from[2].data<std::uint8_t>();
  out.description.assign(text.begin(), text.end());
  if (!std::isfinite(out.learning_rate) || out.learning_rate < 0)
    reject("the learning rate is negative or not finite");
  return out;
}

tensors encode(const step_metrics& x) {
  std::vector<double> values{static_cast<double>(x.examples)};
  values.insert(values.end(), x.sums.begin(), x.sums.end());
  return {tensor::of<double>({std::int64_t(values.size())}, values)};
}

step_metrics decode_step_metrics(const tensors& from, std::size_t sums) {
  if (from.size() != 1 || !from[0]
      || from[0].spec()
           != tensor_spec{{static_cast<std::int64_t>(1 + sums)},
                          dtype::float64})
    reject("a worker has returned other metrics than were asked for");
  const auto values = from[0].data<double>();
  constexpr auto max_examples = 9007199254740992.; // 2^53
  if (!(values[0] >= 0 && values[0] <= max_examples))
    reject("a worker has returned an impossible number of examples");
  return {.examples = static_cast<std::uint64_t>(values[0]),
          .sums = {values.begin() + 1, values.end()}};
}

} // namespace troupe
