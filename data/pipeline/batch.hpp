#pragma once

#include "troupe/data/pipeline/row_range.hpp"
#include "troupe/tensors/tensor.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

/// A tensor of a batch that is neither its inputs nor its labels.
struct named_tensor {
  std::string name;
  tensor value;
};

/// The tensors of one example, or of n examples along a first axis. Two tensors
/// have members of their own, because `fit` reads them: "inputs" and "labels".
/// Any number of others have names. Read-only: the tensors may share memory
/// with the dataset. The function of a `map` cannot write such a tensor
/// (`tensor::read_only`), but its clone.
struct batch {
  /// What the model computes with. Shape: [...] or [n, ...].
  tensor inputs;
  /// What the outputs of the model are compared with, of any dtype. Class
  /// numbers are int32, a scalar or [n]. Empty: none.
  tensor labels;
  /// Number of rows of the global batch that these rows belong to. For a batch
  /// that is not distributed over replicas it is the batch's own number of
  /// rows. Zero: a single example, or a batch that no dataset made.
  std::int64_t global_rows = 0;
  /// Further tensors, in a fixed order. `fit` and `evaluate` read "weights",
  /// the weight of each example in the loss, a scalar or [n].
  pooled<named_tensor> others{};

  /// Number of examples of a batch: the extent of the first axis of its
  /// tensors.
  std::int64_t rows() const;

  /// Returns the tensor with this name. Null: there is none.
  const tensor* find(std::string_view name) const;

  /// Returns the tensor with this name.
  /// @errors throws std::out_of_range that lists the names of all tensors.
  const tensor& operator[](std::string_view name) const;

  /// Calls `fn(name, tensor)` for each tensor, in order.
  template <class F>
  void for_each(F&& fn) const {
    if (inputs)
      fn(std::string_view{"inputs"}, inputs);
    if (labels)
      fn(std::string_view{"labels"}, labels);
    for (const auto& one : others)
      fn(std::string_view{one.name}, one.value);
  }
};

/// True for a batch, false for a single example. A batch that no dataset made
/// counts as a batch if it sets `global_rows` or has no rows.
bool is_batch(const batch& x);

/// Returns some rows of a batch. The result shares the elements of `source`.
batch select_rows(const batch& source, const row_range& rows);

/// Returns the batch with `fn(tensor)` in place of each tensor.
template <class F>
batch transform_tensors(const batch& source, F&& fn) {
  batch out;
  if (source.inputs)
    out.inputs = fn(source.inputs);
  if (source.labels)
    out.labels = fn(source.labels);
  out.global_rows = source.global_rows;
  out.others.reserve(source.others.size());
  for (const auto& one : source.others)
    out.others.push_back({one.name, fn(one.value)});
  return out;
}

} // namespace troupe
