#pragma once

#include "troupe/tensors/base/tape_ids.hpp"
#include "troupe/tensors/base/variable_table.hpp"
#include "troupe/tensors/context.hpp"
#include "troupe/tensors/tape.hpp"

#include <atomic>
#include <cstdint>
#include <span>
#include <utility>

// State of a tape. tape.cpp records; tape_gradient.cpp computes gradients.

namespace troupe {

struct tape::impl {
  /// Index of an input that the tape does not track.
  static constexpr std::int32_t constant = -1;

  /// A tensor with a gradient: a leaf (variable or watched tensor) or the
  /// result of an op.
  struct value {
    tensor_spec spec;
    device on{};        ///< Device of the value and its gradient.
    tensor gradient;    ///< Empty: nothing was added yet.
    tensor destination; ///< Only of a leaf: receives the gradient.
    /// Only of a leaf: the gradient may be sparse.
    bool accepts_rows = false;
    bool has_rows = false; ///< Rows were added to `row_parts`.
    /// Only of a leaf: an op has read it that has no sparse gradient.
    bool is_read_densely = false;
    /// Index in the list of requested gradients. -1: not requested.
    std::int32_t request_index = -1;
    /// Number of recorded ops that read the value and that the backward pass
    /// has not yet reached.
    std::uint32_t uses = 0;
    /// True: a requested gradient depends on the gradient of this value.
    bool requires_gradient = false;
    bool leaf = false;
    bool has_gradient = true; ///< False: an output of an op without gradient.
  };

  /// A recorded op, with the tensors that its backward kernel needs.
  struct node {
    const op* definition = nullptr;
    const op_kernels* kernels = nullptr; ///< Null: the op reshapes.
    /// The inputs had another dtype than the kernels, and were converted.
    bool converts = false;
    bool allows_tf32 = false; ///< As in the forward pass.
    op_options options;
    small_list<tensor, 3> in;
    small_list<std::int32_t, 4> source; ///< Index of the value of each input.
    small_list<tensor, 1> out, saved;
    /// The outputs are the values [first_result, first_result + results).
    std::int32_t first_result = constant;
    std::uint32_t results = 0;
  };

  static inline std::atomic<std::uint32_t> next_serial{1};

  context* owner = &current_context();
  tape* outer = nullptr;
  std::uint32_t serial =
    next_serial.fetch_add(1, std::memory_order_relaxed) & 0x7fff'ffff;
  bool consumed = false;
  pooled<node> nodes;
  pooled<value> values;
  variable_table leaves;
  /// Rows of gradients that are sparse so far, in the order of the backward
  /// pass, and in the dtype of the kernel.
  struct row_part {
    std::int32_t value;
    sparse_rows rows;
  };
  pooled<row_part> row_parts;
  /// Receives the gradients that may be sparse. Null: none may be.
  parameter_gradients* sparse_results = nullptr;

  std::span<value> results_of(const node& x) {
    return {values.data() + x.first_result, x.results};
  }

  std::int32_t add(value x) {
    values.push_back(std::move(x));
    return static_cast<std::int32_t>(values.size() - 1);
  }

  std::int32_t leaf_of(const tensor& x) {
    auto& leaf_index = leaves[tape_ids::low(x.trace())];
    if (leaf_index == variable_table::absent) {
      value leaf;
      leaf.spec = x.spec();
      leaf.on = x.device();
      leaf.leaf = true;
      leaf_index = static_cast<std::uint32_t>(add(std::move(leaf)));
    }
    return static_cast<std::int32_t>(leaf_index);
  }

  /// Index of the value of a tensor; `constant` if this tape does not track it.
  std::int32_t index_of(const tensor& x) const {
    return tape_ids::is_value_of(x.trace(), serial)
             ? static_cast<std::int32_t>(tape_ids::low(x.trace())) - 1
             : constant;
  }

  /// True if `x` is a value of this tape.
  bool has(const tensor& x) const {
    return tape_ids::is_value_of(x.trace(), serial);
  }

  void consume();
  std::int32_t watched_leaf(const tensor& input) const;
  void request_gradient(std::int32_t leaf, std::size_t index,
                        const tensor& destination);
  void request_sparse_gradient(std::int32_t leaf, std::size_t index);
  bool request(const variable& x, std::size_t index, const tensor* destination);
  void start(const tensor& loss);
  void run(const tensor& loss, std::span<const variable> variables,
           const tensors& destinations, const tape::completed& hook);
  void run(const tape::completed& hook);
  void backward(node& x);
  bool takes_rows(const node& x, std::size_t i) const;
  void add_rows(std::int32_t to, sparse_rows rows);
  void make_dense(std::int32_t index);
  sparse_rows take_rows(std::int32_t index);
  static void run_converted(const node& x, op_call& call);
  void pass_through(node& x);
  void release(node& x, const tape::completed& hook);
  void complete(value& leaf, const tape::completed& hook);
};

} // namespace troupe
