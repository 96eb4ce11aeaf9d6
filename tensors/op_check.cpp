#include "troupe/tensors/op_check.hpp"

#include "troupe/tensors/detail/op_check_cases.hpp"
#include "troupe/tensors/flush_denormals.hpp"

#include <exception>

namespace troupe {

namespace {

/// Returns a sentence if a kernel is missing. Empty: none is missing.
std::string missing_kernel(const op& x) {
  if (x.kernels.empty())
    return x.view ? "" : "it has no kernels";
  const auto* const reference = x.find_kernels(dtype::float64);
  for (const auto& one : x.kernels) {
    const auto type = std::string{to_string(one.type)};
    if (!one.forward && !x.view)
      return "its kernels for " + type + " lack the forward one";
    if (!is_float(one.type))
      continue;
    if (!reference)
      return "it needs kernels for float64 on the CPU, which define those for "
             + type;
    if (!one.backward != !reference->backward)
      return "only one of its kernels for " + type
             + " and float64 has a gradient (backward); give both, or none if "
               "it is not differentiable";
  }
  return {};
}

/// Returns a sentence if a member is missing without which no case can run.
/// Empty: none is missing.
std::string missing_member(const op& x) {
  if (!x.infer)
    return "it has no shape rule (infer)";
  if (x.inputs.empty())
    return "it has no inputs";
  if (x.cases.empty())
    return "it has no cases; give shapes of inputs with which it can be "
           "checked";
  for (const auto& one : x.cases)
    if (one.in.size() < x.inputs.size()
        || (one.in.size() > x.inputs.size() && !x.repeats_last_input))
      return "a case has " + std::to_string(one.in.size())
             + " inputs, but the op has " + std::to_string(x.inputs.size());
  if (!x.is_reshape)
    return missing_kernel(x);
  return {};
}

} // namespace

std::vector<std::string> check_op(const op& definition) {
  return check_op(definition, {});
}

std::vector<std::string> check_op(const op& definition, const device& on) {
  using check = std::vector<std::string> (*)(const detail::tried_op&);
  if (const auto text = missing_member(definition); !text.empty())
    return {std::string{definition.name} + ": " + text};
  const flush_denormals flushing;
  std::vector<std::string> failures;
  for (std::size_t i = 0; i < definition.cases.size(); ++i) {
    const detail::tried_op tried{&definition, i, on};
    for (const check one :
         {detail::check_reference_gradient, detail::check_kernels,
          detail::check_accumulation, detail::check_requested_gradients,
          detail::check_sparse_gradients, detail::check_displaced_inputs}) {
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
