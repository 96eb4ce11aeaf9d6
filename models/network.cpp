#include "troupe/models/network.hpp"

#include "troupe/models/detail/names.hpp"
#include "troupe/models/detail/network_plan.hpp"

#include <stdexcept>

namespace troupe::models {

network::network(const model_description& from)
  : description_{
    parse(to_json_text(from), "the model " + detail::in_quotes(from.name))} {
  detail::plan made{description_, "the model " + detail::in_quotes(from.name)};
  root_ = std::move(made.root);
  declared_ = std::move(made.declared);
}

void network::initialize(troupe::parameters& into, std::uint64_t seed) const {
  check_variables(into.variables());
  auto values = into.values(0);
  const auto all = values.mutable_data<float>();
  for (std::size_t i = 0; i < declared_.specs.size(); ++i) {
    const auto& dims = declared_.specs[i].dims;
    declared_.initializers[i].fill(
      all.subspan(into.offset(i), dims.elements()), dims,
      initial_key(seed, static_cast<std::uint32_t>(i)));
  }
  for (std::uint32_t copy = 1; copy < into.copies(); ++copy)
    into.values(copy).copy_from(values);
}

void network::check_input(const shape& example) const {
  if (example != input())
    throw std::invalid_argument(
      "the model " + detail::in_quotes(name()) + " takes examples of shape "
      + to_string(input()) + ", but these are " + to_string(example)
      + "; give other data or a model with this input");
}

tensor network::forward(const tensor& x, std::span<const variable> own,
                        const forward_options& how) const {
  if (x.dims().rank() == 0)
    check_input({});
  check_input(x.dims().axes(1, x.dims().rank()));
  if (x.type() != dtype::float32)
    throw std::invalid_argument("the model " + detail::in_quotes(name())
                                + " computes in float32, but these examples "
                                  "are "
                                + to_string(x.spec()) + "; convert them");
  check_variables(own);
  return root_.what->forward(x, place{root_, own, how});
}

void network::check_variables(std::span<const variable> own) const {
  if (own.size() != declared_.specs.size())
    throw std::logic_error(std::to_string(own.size()) + " variables for the "
                           + std::to_string(declared_.specs.size())
                           + " parameters of the model "
                           + detail::in_quotes(name()));
}

} // namespace troupe::models
