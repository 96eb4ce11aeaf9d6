#pragma once

#include "troupe/tensors/tensor.hpp"
#include "troupe/training/strategies/replica/per_replica.hpp"

#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace troupe::detail {

/// Makes scalars of the numbers of other replicas.
template <std::floating_point T>
class scalar_source final : public value_source<tensor> {
public:
  explicit scalar_source(per_replica<T> numbers)
    : numbers_{std::move(numbers)} {}
  bool provides(std::uint32_t replica) const override {
    return numbers_.provides(replica);
  }

private:
  tensor make(std::uint32_t replica, const char* call) const override {
    return tensor::full({}, numbers_.value_for(replica, call), dtype::float64);
  }

  const per_replica<T> numbers_;
};

/// Returns one number per replica as scalars of float64.
template <std::floating_point T>
per_replica<tensor> scalars_of(const per_replica<T>& numbers) {
  std::vector<tensor> scalars;
  for (const auto number : numbers)
    scalars.push_back(tensor::full({}, number, dtype::float64));
  return per_replica<tensor>{std::move(scalars), numbers.replica_ids(),
                             std::make_shared<scalar_source<T>>(numbers)};
}

} // namespace troupe::detail
