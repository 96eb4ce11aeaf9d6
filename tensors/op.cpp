#include "troupe/tensors/op.hpp"

#include "troupe/tensors/detail/captured_operands.hpp"
#include "troupe/tensors/detail/converted_inputs.hpp"
#include "troupe/tensors/device_backend.hpp"
#include "troupe/tensors/flush_denormals.hpp"
#include "troupe/tensors/ops/all.hpp"
#include "troupe/tensors/tape.hpp"

#include <algorithm>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

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

[[noreturn]] void refuse_input(const op& definition, std::size_t i,
                               const std::string& why) {
  refuse(definition, "input " + std::to_string(i) + why);
}

/// Lists the dtypes of which at least one must be given: "int32 or int64".
std::string any_of(const dtype_set& types) {
  std::string out;
  for (std::size_t i = 0; i < dtype_count; ++i)
    if (types.contains(static_cast<dtype>(i)))
      out += (out.empty() ? "" : " or ")
             + std::string{to_string(static_cast<dtype>(i))};
  return out;
}

/// The dtypes for which an op has kernels on the CPU.
dtype_set dtypes_of_kernels(const op& definition) {
  dtype_set out;
  for (const auto& x : definition.kernels)
    if (x.device == device_kind::cpu)
      out.add(x.type);
  return out;
}

void check_count(const op& definition, std::size_t count) {
  const auto least = definition.inputs.size();
  if (count == least || (count > least && definition.repeats_last_input))
    return;
  refuse(definition, std::to_string(count) + " inputs, not "
                       + std::to_string(least)
                       + (definition.repeats_last_input ? " or more" : ""));
}

/// Returns the device of all inputs.
/// @errors throws std::logic_error that names two devices if there are two.
device device_of_call(const op& definition, std::span<const tensor> in) {
  const auto on = in[0].device();
  for (std::size_t i = 1; i < in.size(); ++i)
    if (in[i] && in[i].device() != on)
      refuse_input(definition, i,
                   ", " + to_string(in[i].spec()) + ", is on "
                     + to_string(in[i].device()) + ", but input 0, "
                     + to_string(in[0].spec()) + ", is on " + to_string(on)
                     + "; copy one of them with to()");
  return on;
}

/// Returns the dtype of the call: that of all inputs without a dtype of their
/// own.
/// @errors throws std::logic_error if an input holds no tensor or has a dtype
///         that the op does not accept there.
dtype type_of_call(const op& definition, std::span<const tensor> in,
                   const device& on) {
  std::optional<dtype> out;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!in[i])
      refuse_input(definition, i, " is an empty tensor");
    const auto type = in[i].type();
    const auto& own = definition.input(i).dtypes;
    if (!own.empty()) {
      if (!own.contains(type))
        refuse_input(definition, i,
                     " is " + to_string(in[i].spec()) + ", not " + any_of(own));
      continue;
    }
    const bool any_type = definition.is_reshape || definition.view;
    const bool runs = any_type || kernels_on(on, definition, type);
    if (!runs && on.kind != device_kind::cpu)
      refuse(definition, "no kernel for " + std::string{to_string(type)}
                           + " on " + to_string(on)
                           + "; copy the inputs with to()");
    if (!runs)
      refuse_input(definition, i,
                   " is " + to_string(in[i].spec()) + ", not "
                     + any_of(dtypes_of_kernels(definition))
                     + "; convert it with as()");
    if (out && *out != type)
      refuse(definition, "inputs mix " + std::string{to_string(*out)} + " and "
                           + std::string{to_string(type)});
    out = type;
  }
  if (!out)
    refuse(definition, "no input has the dtype of the call");
  return *out;
}

/// Checks that a tape may record a call without losing a gradient.
void check_gradients(const op& definition, dtype type,
                     const op_kernels* kernels, const op_outputs& outputs,
                     const tape& recording, std::span<const tensor> in) {
  const auto lost = [&](const std::string& what) {
    refuse(definition, "a tape records its input, but " + what
                         + " no gradient; pass the input's detach()");
  };
  if (!definition.is_reshape && (!kernels || !kernels->backward))
    lost("the op has"
         + (definition.kernels.size() > 1
              ? " for " + std::string{to_string(type)}
              : ""));
  if (std::ranges::none_of(outputs, &op_output::has_gradient))
    lost("its outputs have");
  for (std::size_t i = 0; i < in.size(); ++i)
    if (!definition.input(i).differentiable && recording.tracks({&in[i], 1}))
      refuse_input(definition, i,
                   " has no gradient, but a tape records it; pass its "
                   "detach()");
}

op_outputs infer(const op& definition, std::span<const tensor> in,
                 const op_options& options) {
  small_list<tensor_spec, 4> specs;
  for (const auto& x : in)
    specs.push_back(x.spec());
  return definition.infer({specs.data(), specs.size()}, options);
}

/// Runs the kernels of another dtype than that of the call on converted inputs,
/// and converts what they compute to the dtypes of `outputs`.
void run_converted(const op& definition, const op_kernels& kernels,
                   const op_outputs& outputs, op_call& call) {
  const auto given = call.in;
  const auto inputs = detail::converted_inputs(definition, given, kernels.type);
  call.in = {inputs.data(), inputs.size()};
  for (const auto& x : infer(definition, call.in, call.options))
    call.out.push_back(tensor{x.spec, call.on});
  captured_operands::keep(call);
  const flush_denormals flushing;
  kernels.forward(call);
  for (std::size_t i = 0; i < call.out.size(); ++i)
    call.out[i] = call.out[i].as(outputs[i].spec.type);
  call.in = given;
}

/// Checks that there are kernels, and a reference for each of them.
void check_kernels(const op& definition) {
  if (definition.kernels.empty() && !definition.view)
    refuse(definition, "an op needs kernels");
  for (const auto& x : definition.kernels) {
    const auto name = std::string{to_string(x.type)};
    const auto reference = is_float(x.type) ? dtype::float64 : x.type;
    if (!x.forward && !definition.view)
      refuse(definition, "the kernels for " + name + " lack the forward one");
    if (!definition.find_kernels(reference))
      refuse(definition, "the kernels for " + name
                           + " need a reference: kernels " + "for "
                           + std::string{to_string(reference)} + " on the CPU");
  }
}

/// Runs an op.
/// @param wanted number of outputs; 0: any.
small_list<tensor, 1> run(const op& definition, std::span<const tensor> in,
                          const op_options& options, std::size_t wanted) {
  check_count(definition, in.size());
  const auto on = device_of_call(definition, in);
  const auto type = type_of_call(definition, in, on);
  const auto* const kernels = kernels_on(on, definition, type);
  const auto outputs = infer(definition, in, options);
  if (wanted != 0 && outputs.size() != wanted)
    refuse(definition, std::to_string(outputs.size())
                         + " outputs; call apply_all, which returns them");

  auto* recording = tape::recording();
  const bool recorded = recording && recording->tracks(in);
  if (recorded)
    check_gradients(definition, type, kernels, outputs, *recording, in);
  if (recording)
    recording->check_other_tapes(definition, in);

  small_list<tensor, 3> plain;
  for (const auto& x : in)
    plain.push_back(x.detach());
  op_call call;
  call.definition = &definition;
  call.type = kernels ? kernels->type : type;
  call.on = on;
  call.options = options;
  call.in = {plain.data(), plain.size()};
  if (definition.is_reshape) {
    call.out.push_back(plain[0].reshaped(outputs[0].spec.dims));
  } else if (definition.view) {
    definition.view(call);
  } else if (!kernels->forward) {
    refuse(definition, "no kernel for " + std::string{to_string(type)});
  } else if (kernels->type != type) {
    run_converted(definition, *kernels, outputs, call);
  } else {
    for (const auto& x : outputs)
      call.out.push_back(tensor{x.spec, on});
    captured_operands::keep(call);
    const flush_denormals flushing;
    kernels->forward(call);
  }
  if (call.out.size() != outputs.size())
    refuse(definition, "the shape rule says " + std::to_string(outputs.size())
                         + " outputs, but there are "
                         + std::to_string(call.out.size()));
  if (recorded)
    recording->record(definition, kernels, outputs, call, std::move(plain), in);
  return std::move(call.out);
}

} // namespace

small_list<tensor, 1> apply_all(const op& definition,
                                std::span<const tensor> in,
                                const op_options& options) {
  return run(definition, in, options, 0);
}

small_list<tensor, 1> apply_all(const op& definition,
                                std::initializer_list<tensor> in,
                                const op_options& options) {
  return run(definition, {in.begin(), in.size()}, options, 0);
}

tensor apply(const op& definition, std::span<const tensor> in,
             const op_options& options) {
  return std::move(run(definition, in, options, 1)[0]);
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
  if (definition.name.empty() || definition.inputs.empty() || !definition.infer)
    refuse(definition, "an op needs a name, an input and a shape rule");
  if (std::ranges::all_of(definition.inputs,
                          [](const op_input& x) { return !x.dtypes.empty(); }))
    refuse(definition, "an op needs an input that has the dtype of the call");
  if (!definition.is_reshape)
    check_kernels(definition);
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
