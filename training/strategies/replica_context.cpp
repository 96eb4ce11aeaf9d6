#include "troupe/training/strategies/replica_context.hpp"

#include "troupe/training/strategies/tensor_packs.hpp"

#include <optional>
#include <stdexcept>
#include <string>

namespace troupe {

namespace {

/// True if the all-reduce sums the tensor directly; other dtypes are gathered.
bool sums(const tensor& x) {
  return x.type() == dtype::float32;
}

} // namespace

/// Applies the options of a call during its lifetime.
struct replica_context::call {
  call(replica_context& of, const call_options& how) : of{of} {
    check(how);
    of.begin_call(how);
  }
  ~call() { of.end_call(); }
  call(const call&) = delete;
  call& operator=(const call&) = delete;
  replica_context& of;
};

tensor replica_context::all_reduce(reduce_op op, const tensor& x,
                                   const call_options& how) {
  tensors one;
  one.push_back(x);
  return all_reduce(op, one, how).front();
}

tensors replica_context::all_reduce(reduce_op op, const tensors& xs,
                                    const call_options& how) {
  const call under{*this, how};
  tensors summed;
  for (const auto& x : xs) {
    check_unrecorded(x);
    if (sums(x))
      summed.push_back(x);
  }
  auto totals = sums_of(op, summed,
                        how.bytes_per_pack > 0
                          ? static_cast<std::size_t>(how.bytes_per_pack)
                          : bytes_per_pack_);
  if (totals.size() == xs.size())
    return totals;
  tensors out;
  out.reserve(xs.size());
  for (std::size_t i = 0, next = 0; i < xs.size(); ++i)
    out.push_back(sums(xs[i]) ? std::move(totals[next++])
                              : reduce(op, gather(next_++, xs[i])));
  return out;
}

/// Sums float32 tensors.
tensors replica_context::sums_of(reduce_op op, const tensors& xs,
                                 std::size_t bytes_per_pack) {
  const bool alone = replicas_ == 1; // One replica: packing has no benefit.
  const auto packs =
    alone ? std::nullopt
          : std::optional<packed>{std::in_place, xs, bytes_per_pack};
  const auto& parts = alone ? xs : packs->packs();
  const auto first = next_;
  for (const auto& x : parts)
    start_sum(next_++, x);
  tensors totals;
  totals.reserve(parts.size());
  for (auto number = first; number < next_; ++number) {
    auto total = finish_sum(number);
    // A sum is shared with the other replicas. With one replica it is the part
    // itself, so the caller gets a copy that it may write to.
    if (op == mean)
      total = divided(total, replicas_);
    else if (alone)
      total = total.clone();
    totals.push_back(std::move(total));
  }
  return alone ? totals : packs->unpacked(totals);
}

tensor replica_context::all_gather(const tensor& x, int axis,
                                   const call_options& how) {
  const call under{*this, how};
  check_unrecorded(x);
  return concatenate(gather(next_++, x), axis);
}

tensors replica_context::all_parts(const tensor& x) {
  check_unrecorded(x);
  auto all = gather(next_++, x);
  if (replicas_ == 1 && x) // The tensor is the caller's own.
    all.front() = all.front().clone();
  return all;
}

tensor replica_context::broadcast(const tensor& x, std::uint32_t root) {
  if (root >= replicas_ || (root == id_ && !x))
    throw std::logic_error("a broadcast from replica " + std::to_string(root)
                           + (root >= replicas_
                                ? " of " + std::to_string(replicas_)
                                : ", which passed no tensor"));
  return all_parts(root == id_ ? x : tensor::zeros({}, dtype::uint8))[root];
}

} // namespace troupe
