#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// A value for each replica of a strategy, in order of replica id. As an
/// argument of `strategy.run` each replica gets its own.
template <class T>
class per_replica {
public:
  per_replica() = default;
  explicit per_replica(std::vector<T> values) : values_{std::move(values)} {}

  std::size_t size() const { return values_.size(); }
  using reference = typename std::vector<T>::const_reference;

  reference operator[](std::size_t replica) const {
    if (replica >= values_.size())
      throw std::logic_error("a value of " + std::to_string(values_.size())
                             + " replicas was asked for replica "
                             + std::to_string(replica));
    return values_[replica];
  }
  const std::vector<T>& values() const { return values_; }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }

private:
  std::vector<T> values_;
};

/// What `strategy.run` hands to replica `id` of an argument.
template <class T>
const T& local(const T& x, std::size_t) {
  return x;
}
template <class T>
typename per_replica<T>::reference local(const per_replica<T>& x,
                                         std::size_t id) {
  return x[id];
}

} // namespace troupe
