#pragma once

#include "troupe/training/strategies/replica/per_replica.hpp"
#include "troupe/training/strategies/replica/replica_context.hpp"

#include <concepts>
#include <tuple>
#include <type_traits>

// What `strategy::run` keeps while the replicas of a run use it.

namespace troupe::detail {

/// Refers to an argument that can be neither copied nor moved into a
/// `stored_call`.
template <class T>
struct reference_holder {
  T& target;
};

template <class T>
using stored = std::conditional_t<std::constructible_from<std::decay_t<T>, T>,
                                  std::decay_t<T>,
                                  reference_holder<std::remove_reference_t<T>>>;

template <class T>
stored<T> store(std::remove_reference_t<T>& x) {
  if constexpr (std::constructible_from<std::decay_t<T>, T>)
    return std::decay_t<T>(static_cast<T&&>(x));
  else
    return {x};
}

template <class T>
T& value_of(T& x) {
  return x;
}
template <class T>
T& value_of(reference_holder<T>& x) {
  return x.target;
}

/// A function and its arguments, which each replica calls. The step function
/// shares ownership of this object, because a replica that is stuck in the
/// function outlives `run`.
template <class F, class... Args>
struct stored_call {
  stored_call(std::remove_reference_t<F>& f,
              std::remove_reference_t<Args>&... xs)
    : fn(store<F>(f)), args(store<Args>(xs)...) {}

  decltype(auto) operator()(replica_context& self) {
    return std::apply(
      [&](auto&... xs) -> decltype(auto) {
        const auto id = self.replica_id();
        auto& f = value_of(fn);
        if constexpr (std::invocable<decltype(f), replica_context&,
                                     decltype(local(value_of(xs), id))...>)
          return f(self, local(value_of(xs), id)...);
        else
          return f(local(value_of(xs), id)...);
      },
      args);
  }

  stored<F> fn;
  std::tuple<stored<Args>...> args;
};

} // namespace troupe::detail
