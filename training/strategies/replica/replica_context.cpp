#include "troupe/training/strategies/replica/replica_context.hpp"

#include "troupe/training/strategies/replica/tensor_packs.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>

namespace troupe {

namespace {

/// Returns true if a collective sums the tensor, which then is float32. Tensors
/// of other dtypes are gathered, and then each replica adds them.
bool is_summed(const tensor& x) {
  return x.type() == dtype::float32;
}

/// Returns each result on the device of its input.
tensors to_devices_of(const tensors& inputs, tensors results) {
  for (std::size_t i = 0; i < results.size(); ++i)
    results[i] = results[i].to(inputs[i].device());
  return results;
}

} // namespace

/// Applies the options of a collective call as long as this object exists.
struct replica_context::call {
  call(replica_context& context, const call_options& options,
       std::size_t tensors)
    : context{context} {
    check(options);
    context.begin_call(options, tensors);
  }
  ~call() { context.end_call(); }
  call(const call&) = delete;
  call& operator=(const call&) = delete;
  replica_context& context;
};

/// Notes a call before it takes place.
void replica_context::note_call(const replica_call& made) {
  if (replicas_ == 1)
    return;
  compare_call(calls_.size(), made);
  calls_.push_back(made);
}

/// Checks that all replicas have passed an equal tensor to the last call.
/// @param made  what this replica has passed.
/// @param index of the tensor in the call.
/// @param all   the tensors of all replicas.
/// @errors throws std::logic_error with both calls.
void replica_context::check_equal_specs(const replica_call& made,
                                        std::size_t index,
                                        const tensors& all) const {
  auto other = made;
  for (std::uint32_t r = 0; r < all.size(); ++r) {
    other.specs[index] = all[r].spec();
    if (replicas_ > 1)
      check_equal_calls(r, other, id_, made, calls_.size() - 1);
  }
}

tensor replica_context::all_reduce(reduce_op op, const tensor& x,
                                   const call_options& options) {
  tensors one;
  one.push_back(x);
  return all_reduce(op, one, options).front();
}

tensors replica_context::all_reduce(reduce_op op, const tensors& xs,
                                    const call_options& options) {
  const call call_scope{*this, options, xs.size()};
  tensors summed;
  replica_call made{.op = op};
  for (const auto& x : xs) {
    check_unrecorded(x);
    made.specs.push_back(x.spec());
    if (is_summed(x))
      summed.push_back(x);
  }
  note_call(made);
  auto totals = reduce_tensors(op, summed, options);
  if (totals.size() == xs.size())
    return to_devices_of(xs, std::move(totals));
  // The number of a gather depends on the position of its tensor. So replicas
  // that pass the same dtypes in another order call different collectives.
  const auto first = next_collective_;
  next_collective_ += static_cast<std::uint32_t>(xs.size());
  tensors out;
  out.reserve(xs.size());
  for (std::uint32_t i = 0, next = 0; i < xs.size(); ++i) {
    if (is_summed(xs[i])) {
      out.push_back(std::move(totals[next++]));
      continue;
    }
    const auto all = gather_on_host(first + i, xs[i]);
    check_equal_specs(made, i, all);
    out.push_back(reduce(op, all));
  }
  return to_devices_of(xs, std::move(out));
}

/// The collectives read the tensors of several replicas on the CPU, but for
/// sums by NCCL.
tensor replica_context::on_host(const tensor& x) const {
  return replicas_ == 1 ? x : x.to({});
}

tensors replica_context::gather_on_host(std::uint32_t number, const tensor& x) {
  return gather(number, on_host(x));
}

parameter_gradients replica_context::all_reduce(reduce_op op,
                                                const parameter_gradients& xs,
                                                const call_options& options) {
  tensors dense;
  for (const auto& x : xs)
    if (!x.is_sparse())
      dense.push_back(x.dense());
  auto totals = all_reduce(op, dense, options);
  const call call_scope{*this, options, xs.size()};
  // The number of a gather depends on the position of its gradient, so that
  // replicas on which another gradient is sparse call different collectives.
  const auto first = next_collective_;
  next_collective_ += static_cast<std::uint32_t>(2 * xs.size());
  parameter_gradients out;
  for (std::uint32_t i = 0, next = 0; i < xs.size(); ++i)
    if (xs[i].is_sparse())
      out.push_back(reduce_rows(op, xs[i].rows(), first + 2 * i));
    else
      out.push_back(std::move(totals[next++]));
  return out;
}

namespace {

/// Returns the indices of rows, after the dtype, the rank and the shape of the
/// tensor.
tensor described_indices(const sparse_rows& x) {
  pooled<std::int64_t> all{static_cast<std::int64_t>(x.type()),
                           static_cast<std::int64_t>(x.dims().rank())};
  all.insert(all.end(), x.dims().begin(), x.dims().end());
  const auto indices = x.indices().data<std::int64_t>();
  all.insert(all.end(), indices.begin(), indices.end());
  return tensor::of<std::int64_t>({static_cast<std::int64_t>(all.size())}, all);
}

/// Names the tensor of whose rows a replica has gathered the indices.
std::string described_tensor(const tensor& described, dtype type) {
  if (described.type() == dtype::int64 && described.size() >= 2) {
    const auto values = described.data<std::int64_t>();
    const auto rank = static_cast<std::size_t>(values[1]);
    if (values[1] >= 0 && rank <= std::min(values.size() - 2, shape::max_rank))
      return "a sparse gradient of "
             + to_string(tensor_spec{shape{values.subspan(2, rank)}, type});
  }
  return "other values";
}

/// Reads what a replica has gathered.
/// @param own     rows of the replica `self`.
/// @param replica the replica that has gathered `described` and `rows`.
/// @errors throws std::logic_error if they are rows of another tensor.
sparse_rows read_rows(std::uint32_t self, const sparse_rows& own,
                      std::uint32_t replica, const tensor& described,
                      const tensor& rows) {
  const auto header = 2 + own.dims().rank();
  const auto refuse = [&] {
    throw std::logic_error("replica " + std::to_string(replica) + " passed "
                           + described_tensor(described, rows.type())
                           + ", but replica " + std::to_string(self)
                           + " a sparse gradient of "
                           + to_string(tensor_spec{own.dims(), own.type()})
                           + "; all replicas must pass gradients of the same "
                             "variables");
  };
  if (described.type() != dtype::int64 || described.size() < header)
    refuse();
  const auto values = described.data<std::int64_t>();
  if (values[0] != static_cast<std::int64_t>(own.type())
      || values[1] != static_cast<std::int64_t>(own.dims().rank())
      || rows.type() != own.type()
      || !std::ranges::equal(own.dims(), values.subspan(2, header - 2)))
    refuse();
  sparse_rows out{own.dims(), described.range(header, values.size()), rows};
  if (!out.is_sorted())
    throw std::logic_error("a replica passed rows that are not sorted");
  return out;
}

} // namespace

/// Reduces rows by the gathers `number` and `number + 1`.
sparse_rows replica_context::reduce_rows(reduce_op op, const sparse_rows& x,
                                         std::uint32_t number) {
  check_unrecorded(x.rows());
  const auto indices = gather(number, described_indices(x));
  const auto rows = gather_on_host(number + 1, x.rows());
  pooled<sparse_rows> parts;
  for (std::uint32_t r = 0; r < indices.size(); ++r)
    parts.push_back(read_rows(id_, x, r, indices[r], rows[r]));
  const auto total = sum_over_replicas(parts);
  const auto elements = op == mean ? divide_elements(total.rows(), replicas_)
                        : parts.size() == 1 ? total.rows().clone()
                                            : total.rows();
  return {x.dims(), total.indices(), elements.to(x.rows().device())};
}

bool replica_context::are_summed_on_device(const tensors& xs,
                                           const call_options& options) const {
  // NCCL has no such ring.
  return options.implementation != communication_options::implementations::ring
         && takes_device_tensors()
         && std::ranges::none_of(xs, [](const tensor& x) {
              return x.device().kind == device_kind::cpu;
            });
}

/// Reduces float32 tensors.
tensors replica_context::reduce_tensors(reduce_op op, const tensors& xs,
                                        const call_options& options) {
  // With one replica, packing has no benefit.
  const bool is_single_replica = replicas_ == 1;
  auto inputs = xs;
  const bool is_on_device = are_summed_on_device(xs, options);
  for (auto& x : inputs)
    x = is_on_device ? x.to(device_) : on_host(x);
  std::optional<tensor_packs> packs;
  if (!is_single_replica)
    inputs =
      packs
        .emplace(inputs, options.bytes_per_pack > 0
                           ? static_cast<std::size_t>(options.bytes_per_pack)
                           : bytes_per_pack_)
        .packs();
  const auto first = next_collective_;
  for (const auto& x : inputs)
    start_sum(next_collective_++, x);
  tensors totals;
  totals.reserve(inputs.size());
  for (auto number = first; number < next_collective_; ++number) {
    auto total = finish_sum(number);
    // With one replica the sum is the input itself, so the caller gets a copy.
    if (op == mean)
      total = divide_elements(total, replicas_);
    else if (is_single_replica)
      total = total.clone();
    totals.push_back(std::move(total));
  }
  return is_single_replica ? totals : packs->unpacked(totals);
}

tensor replica_context::all_gather(const tensor& x, int axis,
                                   const call_options& options) {
  const call call_scope{*this, options, 1};
  check_unrecorded(x);
  note_call({.called = replica_call::kind::all_gather, .axis = axis});
  return concatenate(gather_on_host(next_collective_++, x), axis)
    .to(x.device());
}

tensors replica_context::all_gather_list(const tensor& x) {
  check_unrecorded(x);
  note_call({.called = replica_call::kind::all_gather_list});
  return gather_list(x);
}

tensors replica_context::gather_list(const tensor& x) {
  auto all = gather_on_host(next_collective_++, x);
  if (replicas_ == 1 && x) // The gathered tensor is `x` itself.
    all.front() = all.front().clone();
  for (auto& one : all)
    one = one.to(x.device());
  return all;
}

pooled<std::uint64_t> replica_context::barrier(std::uint64_t value) {
  return wait_at_barrier(next_collective_++, value);
}

tensor replica_context::broadcast(const tensor& x, std::uint32_t root) {
  if (root >= replicas_ || (root == id_ && !x))
    throw std::logic_error("a broadcast from replica " + std::to_string(root)
                           + (root >= replicas_
                                ? " of " + std::to_string(replicas_)
                                : ", which passed no tensor"));
  if (root == id_)
    check_unrecorded(x);
  note_call({.called = replica_call::kind::broadcast, .root = root});
  const auto none = tensor::zeros({}, dtype::uint8);
  return gather_list(root == id_ ? x.detach().to({}) : none)[root].to(device_);
}

} // namespace troupe
