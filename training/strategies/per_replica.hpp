#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// Holds one value for each replica of this process, in order of replica id. If
/// a `per_replica` is an argument of `strategy::run`, each replica gets its own
/// value.
template <class T>
class per_replica {
public:
  per_replica() = default;
  /// @param first replica id of the first value. The ids of the other values
  ///        follow.
  explicit per_replica(std::vector<T> values, std::uint32_t first = 0)
    : values_{std::move(values)}, first_{first} {}

  std::size_t size() const { return values_.size(); }
  std::uint32_t first() const { return first_; }
  using reference = typename std::vector<T>::const_reference;

  /// @param replica id of a replica in the job.
  /// @errors throws std::logic_error if the replica has no value in this
  ///         process.
  reference operator[](std::size_t replica) const {
    if (replica < first_ || replica - first_ >= values_.size())
      throw std::logic_error("values of replicas [" + std::to_string(first_)
                             + ", " + std::to_string(first_ + values_.size())
                             + ") include none of replica "
                             + std::to_string(replica));
    return values_[replica - first_];
  }
  const std::vector<T>& values() const { return values_; }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }

private:
  std::vector<T> values_;
  std::uint32_t first_ = 0;
};

/// Returns the value that `strategy::run` passes to replica `id` for the
/// argument `x`.
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
