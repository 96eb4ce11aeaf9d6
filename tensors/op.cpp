#include "troupe/tensors/op.hpp"

#include "troupe/tensors/flush_denormals.hpp"
#include "troupe/tensors/ops/all.hpp"
#include "troupe/tensors/tape.hpp"

#include <algorithm>
#include <mutex>
#include <string>

namespace troupe {

namespace {

struct op_registry {
  std::mutex lock;
  std::vector<const op*> ops;
};

op_registry& user_ops() {
  static op_registry it;
  return it;
}

[[noreturn]] void refuse(const op& definition, const std::string& why) {
  throw std::logic_error(std::string{definition.name} + ": " + why);
}

/// Returns the common dtype of the float inputs: float32 or float64.
/// @errors throws std::logic_error if an input holds no tensor, if an integer
///         input is not int32, if a float input has another dtype, or if
///         float32 and float64 are mixed.
dtype precision_of(const op& definition, std::span<const tensor> in) {
  bool narrow = false, wide = false;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!in[i])
      refuse(definition, "input " + std::to_string(i) + " is an empty tensor");
    const auto type = in[i].type();
    if ((definition.integers >> i & 1) != 0) {
      if (type != dtype::int32)
        refuse(definition, "input " + std::to_string(i) + " is "
                             + to_string(in[i].spec()) + ", not int32");
      continue;
    }
    narrow |= type == dtype::float32;
    wide |= type == dtype::float64;
    if (type != dtype::float32 && type != dtype::float64)
      refuse(definition, "input " + std::to_string(i) + " is "
                           + to_string(in[i].spec())
                           + "; convert it with as()");
  }
  if (narrow && wide)
    refuse(definition, "inputs mix float32 and float64");
  return wide ? dtype::float64 : dtype::float32;
}

bool differentiable(const op& definition) {
  return definition.is_reshape || definition.reference_backward
         || definition.backward[std::size_t(device_kind::cpu)];
}

} // namespace

tensor apply(const op& definition, std::span<const tensor> in,
             const op_options& options) {
  if (in.size() != definition.arity)
    refuse(definition, std::to_string(in.size()) + " inputs, not "
                         + std::to_string(definition.arity));
  const auto precision = precision_of(definition, in);
  std::array<tensor_spec, 4> specs;
  for (std::size_t i = 0; i < in.size(); ++i)
    specs[i] = in[i].spec();
  const auto spec = definition.infer({specs.data(), in.size()}, options);

  auto* recording = tape::recording();
  const bool recorded = recording && recording->tracks(in);
  if (recorded && !differentiable(definition))
    refuse(definition,
           "a tape records its input, but the op has no gradient; pass "
           "the input's detach()");
  if (recording)
    recording->check_other_tapes(definition, in);

  std::array<tensor, 4> plain;
  for (std::size_t i = 0; i < in.size(); ++i)
    plain[i] = in[i].detach();
  op_call call;
  call.options = options;
  call.in = {plain.data(), in.size()};
  if (definition.is_reshape) {
    call.out = plain[0].reshaped(spec.dims);
  } else if (definition.view) {
    call.out = definition.view(plain[0], options);
  } else {
    const auto kernel = precision == dtype::float64
                          ? definition.reference_forward
                          : definition.forward[std::size_t(device_kind::cpu)];
    if (!kernel)
      refuse(definition, "no kernel for " + std::string{to_string(precision)});
    call.out = tensor{spec};
    const flush_denormals flushing;
    kernel(call);
  }
  return recorded ? recording->record(definition, call, in) : call.out;
}

tensor apply(const op& definition, std::initializer_list<tensor> in,
             const op_options& options) {
  return apply(definition, std::span{in.begin(), in.size()}, options);
}

std::vector<const op*> all_ops() {
  std::vector<const op*> out{ops::built_in.begin(), ops::built_in.end()};
  auto& users = user_ops();
  const std::lock_guard hold{users.lock};
  out.insert(out.end(), users.ops.begin(), users.ops.end());
  return out;
}

void register_op(const op& definition) {
  if (definition.name.empty() || definition.arity == 0 || definition.arity > 4
      || !definition.infer)
    refuse(definition, "an op needs a name, 1 to 4 inputs and a shape rule");
  if (!definition.is_reshape && !definition.view
      && (!definition.forward[std::size_t(device_kind::cpu)]
          || !definition.reference_forward))
    refuse(definition,
           "an op needs a kernel for the CPU and a float64 reference");
  if (find_op(definition.name))
    refuse(definition, "the name is taken");
  auto& users = user_ops();
  const std::lock_guard hold{users.lock};
  users.ops.push_back(&definition);
}

const op* find_op(std::string_view name) {
  const auto ops = all_ops();
  const auto at = std::ranges::find(ops, name, &op::name);
  return at == ops.end() ? nullptr : *at;
}

} // namespace troupe
