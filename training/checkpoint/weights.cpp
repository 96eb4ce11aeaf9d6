#include "troupe/training/checkpoint/weights.hpp"

#include "troupe/models/detail/names.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/training/checkpoint/saved_model.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

std::vector<std::string> names_in(std::span<const variable> variables) {
  std::vector<std::string> out;
  for (const auto& one : variables)
    out.push_back(one.name());
  return out;
}

[[noreturn]] void refuse_name(const std::string& where, const std::string& name,
                              const std::vector<std::string>& names) {
  throw std::invalid_argument(where + " has no variable "
                              + models::detail::in_quotes(name) + ";"
                              + models::detail::guess(name, names) + " it has "
                              + models::detail::joined(names));
}

void set(model_state& state, std::size_t index, const tensor& value) {
  const auto begin = state.model_parameters.offset(index);
  const auto count = state.variables()[index].dims().elements();
  state.model_parameters.values(0)
    .range(begin, begin + count)
    .copy_from(value.reshaped({static_cast<std::int64_t>(count)}));
}

/// Returns the shape of a matrix whose axes are exchanged.
bool is_transposed(const shape& a, const shape& b) {
  return a.rank() == 2 && b.rank() == 2 && a[0] == b[1] && a[1] == b[0];
}

} // namespace

void set_weights(model_state& state, const std::string& name,
                 const tensor& value) {
  const auto variables = state.variables();
  const auto found = std::ranges::find(variables, name, &variable::name);
  if (found == variables.end())
    refuse_name("the model \"" + state.net.name() + "\"", name,
                names_in(variables));
  const tensor_spec wanted{found->dims(), dtype::float32};
  if (value.spec() != wanted)
    throw std::invalid_argument(
      "the variable \"" + name + "\" is " + to_string(wanted)
      + ", but the value is " + to_string(value.spec())
      + (is_transposed(found->dims(), value.dims())
           ? "; exchange its axes: a kernel here is [in, out]"
           : ""));
  if (is_recorded(value))
    throw std::invalid_argument(
      "the value for the variable \"" + name
      + "\" is recorded by a tape; pass its detach()");
  set(state, static_cast<std::size_t>(found - variables.begin()), value);
}

std::vector<std::string>
load_weights(model_state& state, const std::filesystem::path& file,
             const std::function<bool(const std::string&)>& only) {
  const auto saved = saved_weights(file);
  const auto where = "\"" + file.string() + "\"";
  std::vector<std::pair<std::size_t, const tensor*>> all;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < state.variables().size(); ++i) {
    const auto& name = state.variables()[i].name();
    if (only && !only(name))
      continue;
    const auto found = std::ranges::find(saved, name, &saved_weight::name);
    if (found == saved.end()) {
      std::vector<std::string> known;
      for (const auto& one : saved)
        known.push_back(one.name);
      refuse_name(where, name, known);
    }
    if (found->value.dims() != state.variables()[i].dims())
      throw std::invalid_argument("the variable \"" + name + "\" is "
                                  + to_string(state.variables()[i].dims())
                                  + ", but " + to_string(found->value.dims())
                                  + " in " + where);
    all.emplace_back(i, &found->value);
    names.push_back(name);
  }
  if (all.empty())
    throw std::invalid_argument(
      "no variable of the model \"" + state.net.name()
      + "\" is selected to be loaded from " + where + "; it has "
      + models::detail::joined(names_in(state.variables())));
  for (const auto& [index, value] : all)
    set(state, index, *value);
  return names;
}

} // namespace troupe
