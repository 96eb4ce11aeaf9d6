#pragma once

#include "troupe/data/pipeline/dataset.hpp"

#include <exception>
#include <string>
#include <vector>

namespace troupe::data::testing {

/// Makes n examples: example i has the inputs [i, -i] and the label i % 3.
inline dataset counted(std::int64_t n) {
  tensor inputs{{n, 2}};
  tensor labels{{n}, dtype::int32};
  for (std::int64_t i = 0; i < n; ++i) {
    inputs.mutable_data<float>()[std::size_t(2 * i)] = float(i);
    inputs.mutable_data<float>()[std::size_t(2 * i) + 1] = -float(i);
    labels.mutable_data<std::int32_t>()[std::size_t(i)] = int(i % 3);
  }
  return {inputs, labels, 3};
}

/// Returns for each example of a batch its number i in `counted`. -1: inputs
/// and label are not of the same example.
inline std::vector<int> names(const batch& x) {
  std::vector<int> out;
  const auto in = x.inputs.data<float>();
  const auto labels = x.labels.data<std::int32_t>();
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto name = int(in[2 * i]);
    const bool whole = in[2 * i + 1] == -in[2 * i] && labels[i] == name % 3;
    out.push_back(whole ? name : -1);
  }
  return out;
}

using lists = std::vector<std::vector<int>>;

/// Returns the numbers of the examples in each remaining element, for at most
/// `limit` elements.
inline lists rest(cursor& x, std::size_t limit = 10'000) {
  lists out;
  while (out.size() < limit) {
    const auto next = x.next();
    if (!next)
      break;
    out.push_back(names(*next));
  }
  return out;
}

inline lists all_names(const dataset& x, std::uint64_t pass = 0) {
  auto each = x.iterate({pass, 0});
  return rest(each);
}

inline std::vector<int> flat(const lists& x) {
  std::vector<int> out;
  for (const auto& each : x)
    out.insert(out.end(), each.begin(), each.end());
  return out;
}

/// Returns the message of the exception that `fn` throws. Empty: none.
template <class F>
std::string complaint(F&& fn) {
  try {
    fn();
  } catch (const std::exception& x) {
    return x.what();
  }
  return {};
}

} // namespace troupe::data::testing
