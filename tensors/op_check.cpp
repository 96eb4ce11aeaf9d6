#include "troupe/tensors/op_check.hpp"

#include "troupe/tensors/detail/op_check_cases.hpp"
#include "troupe/tensors/flush_denormals.hpp"

#include <exception>

namespace troupe {

namespace {

/// Returns a sentence if a member is missing without which no case can run.
/// Empty: none is missing.
std::string missing_member(const op& x) {
  if (!x.infer)
    return "it has no shape rule (infer)";
  if (x.arity == 0 || x.arity > 4)
    return "its arity is " + std::to_string(x.arity) + "; it must be 1 to 4";
  if (x.cases.empty())
    return "it has no cases; give shapes of inputs with which it can be "
           "checked";
  const bool has_kernels = !x.is_reshape && !x.view;
  if (has_kernels && (!x.forward[0] || !x.reference_forward))
    return "it needs a kernel for the CPU (forward) and a float64 reference "
           "(reference_forward)";
  if (!x.is_reshape && !x.backward[0] != !x.reference_backward)
    return "it has only one of the kernels backward and reference_backward; "
           "give both, or none if it is not differentiable";
  return {};
}

} // namespace

std::vector<std::string> check_op(const op& definition) {
  using check = std::vector<std::string> (*)(const detail::tried_op&);
  if (const auto text = missing_member(definition); !text.empty())
    return {std::string{definition.name} + ": " + text};
  const flush_denormals flushing;
  std::vector<std::string> failures;
  for (std::size_t i = 0; i < definition.cases.size(); ++i) {
    const detail::tried_op tried{&definition, i};
    for (const check one :
         {detail::check_reference_gradient, detail::check_kernels,
          detail::check_accumulation, detail::check_requested_gradients,
          detail::check_displaced_inputs}) {
      std::vector<std::string> texts;
      try {
        texts = one(tried);
      } catch (const std::exception& e) {
        texts = {std::string{"an exception: "} + e.what()};
      }
      for (const auto& text : texts)
        failures.push_back(tried.description() + ": " + text);
    }
  }
  return failures;
}

} // namespace troupe
