#include "troupe/training/replica_context.hpp"

#include "troupe/tensors/context.hpp"
#include "troupe/tensors/tape.hpp"

#include <stdexcept>

namespace troupe {

namespace {

void check_untaped(const tensor& x) {
  const auto* tape = current_context().recording;
  if (x.trace() != 0 && tape && tape->knows({&x, 1}))
    throw std::logic_error("no gradient passes an exchange between replicas, "
                           "but a tape follows the value "
                           + to_string(x.spec()));
}

/// Whether replicas sum it as it comes.
bool sums(const tensor& x) {
  return x.type() == dtype::float32;
}

} // namespace

tensor replica_context::all_reduce(reduce_op op, const tensor& x) {
  tensors one;
  one.push_back(x);
  return all_reduce(op, one).front();
}

tensors replica_context::all_reduce(reduce_op op, const tensors& xs) {
  const auto first = next_;
  next_ += static_cast<std::uint32_t>(xs.size());
  for (std::size_t i = 0; i < xs.size(); ++i) {
    check_untaped(xs[i]);
    if (sums(xs[i]))
      start_sum(first + static_cast<std::uint32_t>(i), xs[i]);
  }
  tensors out;
  out.reserve(xs.size());
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const auto number = first + static_cast<std::uint32_t>(i);
    if (!sums(xs[i])) {
      out.push_back(reduce(op, gather(number, xs[i])));
      continue;
    }
    auto total = finish_sum(number);
    // The sum itself is shared with the other replicas.
    out.push_back(op == mean ? divided(total, num_replicas_in_sync())
                             : std::move(total));
  }
  return out;
}

tensor replica_context::all_gather(const tensor& x, int axis) {
  check_untaped(x);
  return concatenate(gather(next_++, x), axis);
}

} // namespace troupe
