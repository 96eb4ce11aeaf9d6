#include "troupe/tensors/detail/captured_operands.hpp"

#include "troupe/tensors/op.hpp"

#include <iterator>

namespace troupe {

void captured_operands::add(const tensor& x) {
  if (x && x.bytes() > 0 && x.device() == on_ && !is_own(x.address()))
    kept_.try_emplace(x.address(), x.detach());
}

void captured_operands::add(const op_call& call) {
  for (const auto& x : call.in)
    add(x);
  for (const auto& x : call.grad_in)
    add(x);
  for (const auto* list : {&call.out, &call.saved, &call.grad_out})
    for (const auto& x : *list)
      add(x);
}

bool captured_operands::is_own(const std::byte* address) const {
  const auto after = own_.upper_bound(address);
  if (after == own_.begin())
    return false;
  const auto& [block, bytes] = *std::prev(after);
  return address < block + bytes;
}

} // namespace troupe
