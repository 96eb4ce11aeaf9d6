#include "troupe/tensors/op.hpp"

#include "troupe/tensors/ops/all.hpp"
#include "troupe/tensors/tape.hpp"

#include <algorithm>
#include <mutex>
#include <string>

namespace troupe {

namespace {

struct registered {
  std::mutex lock;
  std::vector<const op*> ops;
};

registered& users_ops() {
  static registered it;
  return it;
}

[[noreturn]] void refuse(const op& what, const std::string& why) {
  throw std::logic_error(std::string{what.name} + ": " + why);
}

/// float64 if any input is float64. float32 and float64 inputs must not be
/// mixed.
dtype precision_of(const op& what, std::span<const tensor> in) {
  bool narrow = false, wide = false;
  for (std::size_t i = 0; i < in.size(); ++i) {
    if (!in[i])
      refuse(what, "input " + std::to_string(i) + " is an empty tensor");
    const auto type = in[i].type();
    if ((what.integers >> i & 1) != 0) {
      if (type != dtype::int32)
        refuse(what, "input " + std::to_string(i) + " is "
                       + to_string(in[i].spec()) + ", not int32");
      continue;
    }
    narrow |= type == dtype::float32;
    wide |= type == dtype::float64;
    if (type != dtype::float32 && type != dtype::float64)
      refuse(what, "input " + std::to_string(i) + " is "
                     + to_string(in[i].spec()) + "; convert it with as()");
  }
  if (narrow && wide)
    refuse(what, "inputs mix float32 and float64");
  return wide ? dtype::float64 : dtype::float32;
}

bool differentiable(const op& what) {
  return what.passes_through || what.reference_backward
         || what.backward[std::size_t(device_kind::cpu)];
}

} // namespace

tensor apply(const op& what, std::span<const tensor> in,
             const op_options& options) {
  if (in.size() != what.arity)
    refuse(what, std::to_string(in.size()) + " inputs, not "
                   + std::to_string(what.arity));
  const auto precision = precision_of(what, in);
  std::array<tensor_spec, 4> specs;
  for (std::size_t i = 0; i < in.size(); ++i)
    specs[i] = in[i].spec();
  const auto spec = what.infer({specs.data(), in.size()}, options);

  auto* recording = tape::recording();
  const bool recorded = recording && recording->knows(in);
  if (recorded && !differentiable(what))
    refuse(what, "a tape records its input, but the op has no gradient; pass "
                 "the input's detach()");
  if (recording)
    recording->check_others(what, in);

  std::array<tensor, 4> plain;
  for (std::size_t i = 0; i < in.size(); ++i)
    plain[i] = in[i].detach();
  op_call call;
  call.options = options;
  call.in = {plain.data(), in.size()};
  if (what.passes_through) {
    call.out = plain[0].reshaped(spec.dims);
  } else if (what.view) {
    call.out = what.view(plain[0], options);
  } else {
    const auto kernel = precision == dtype::float64
                          ? what.reference_forward
                          : what.forward[std::size_t(device_kind::cpu)];
    if (!kernel)
      refuse(what, "no kernel for " + std::string{to_string(precision)});
    call.out = tensor{spec};
    kernel(call);
  }
  return recorded ? recording->record(what, call, in) : call.out;
}

tensor apply(const op& what, std::initializer_list<tensor> in,
             const op_options& options) {
  return apply(what, std::span{in.begin(), in.size()}, options);
}

std::vector<const op*> all_ops() {
  std::vector<const op*> out{ops::all.begin(), ops::all.end()};
  auto& users = users_ops();
  const std::lock_guard hold{users.lock};
  out.insert(out.end(), users.ops.begin(), users.ops.end());
  return out;
}

void register_op(const op& what) {
  if (what.name.empty() || what.arity == 0 || what.arity > 4 || !what.infer)
    refuse(what, "an op needs a name, 1 to 4 inputs and a shape rule");
  if (!what.passes_through && !what.view
      && (!what.forward[std::size_t(device_kind::cpu)]
          || !what.reference_forward))
    refuse(what, "an op needs a kernel for the CPU and a float64 reference");
  if (find_op(what.name))
    refuse(what, "the name is taken");
  auto& users = users_ops();
  const std::lock_guard hold{users.lock};
  users.ops.push_back(&what);
}

const op* find_op(std::string_view name) {
  const auto ops = all_ops();
  const auto at = std::ranges::find(ops, name, &op::name);
  return at == ops.end() ? nullptr : *at;
}

} // namespace troupe
