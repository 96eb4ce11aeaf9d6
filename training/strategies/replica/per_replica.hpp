#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace troupe {

/// Makes the values of replicas that were in another process when a
/// `per_replica` was made. This process hosts them since that process was lost.
/// Several replicas may ask at the same time.
template <class T>
class value_source {
public:
  virtual ~value_source() = default;

  /// Returns true if this process hosts the replica now.
  virtual bool provides(std::uint32_t replica) const = 0;

  /// Returns the value of a replica. The reference is valid as long as this
  /// object exists.
  /// @param call name of the user's call that needs the value, for the error.
  /// @errors throws `job_error` if the value is lost with its process.
  const T& value_for(std::uint32_t replica, const char* call) const {
    const std::lock_guard hold{lock_};
    auto found = made_.find(replica);
    if (found == made_.end())
      found = made_.emplace(replica, make(replica, call)).first;
    return found->second;
  }

private:
  virtual T make(std::uint32_t replica, const char* call) const = 0;

  mutable std::mutex lock_;
  mutable std::map<std::uint32_t, T> made_;
};

/// True if a function object has no state, so it can be called again later. It
/// is a pointer to a member or function, or a lambda without captures.
template <class F>
inline constexpr bool is_stateless_function =
  std::is_empty_v<
    F> || std::is_member_pointer_v<F> || std::is_function_v<std::remove_pointer_t<F>>;

template <class T, class F, class U>
class mapped_values;

/// Holds one value for each replica of this process, in order of replica id. If
/// a `per_replica` is an argument of `strategy::run`, each replica gets its own
/// value. If this process takes over a replica of a lost process, the results
/// of `run` and the elements of a `distributed_dataset` have a value for that
/// replica too. So have the results of `map` by a function without captures.
/// What a program derives from them otherwise has none.
template <class T>
class per_replica {
public:
  per_replica() = default;
  /// The values of replicas 0, 1, 2, ...
  explicit per_replica(std::vector<T> values)
    : values_{std::move(values)}, ids_(values_.size()) {
    std::iota(ids_.begin(), ids_.end(), std::uint32_t{0});
  }
  /// @param replica_ids ids of the values' replicas, ascending.
  /// @errors throws std::logic_error if there is not one id for each value, or
  ///         if the ids do not ascend.
  /// @param others for the library's own use: the values of further replicas.
  per_replica(std::vector<T> values, std::vector<std::uint32_t> replica_ids,
              std::shared_ptr<const value_source<T>> others = nullptr)
    : values_{std::move(values)},
      ids_{std::move(replica_ids)},
      others_{std::move(others)} {
    if (ids_.size() != values_.size()
        || std::ranges::adjacent_find(ids_, std::ranges::greater_equal{})
             != ids_.end())
      throw std::logic_error(std::to_string(values_.size())
                             + " values for the replicas " + id_text());
  }

  std::size_t size() const { return values_.size(); }
  /// @returns the ids of the replicas that have a value, ascending.
  const std::vector<std::uint32_t>& replica_ids() const { return ids_; }
  using reference = typename std::vector<T>::const_reference;

  /// @param replica id of a replica in the job.
  /// @errors throws std::logic_error if the replica has no value in this
  ///         process.
  reference operator[](std::size_t replica) const {
    return value_for(replica, "operator[]");
  }
  /// Returns the value of a replica, as `operator[]` does.
  /// @param call name of the user's call that needs the value, for the error.
  reference value_for(std::size_t replica, const char* call) const {
    const auto at = std::ranges::lower_bound(ids_, replica);
    if (at != ids_.end() && *at == replica)
      return values_[static_cast<std::size_t>(at - ids_.begin())];
    if (const auto id = static_cast<std::uint32_t>(replica);
        others_ && others_->provides(id))
      return others_->value_for(id, call);
    throw std::logic_error(
      std::string{call} + ": values of the replicas " + id_text()
      + " include none of replica " + std::to_string(replica)
      + "; per_replica{values} counts from 0, so derive the values by "
        "`map` or `values_from`, or pass `local_replica_ids()` too; derive "
        "them again after the loss of a process, or by `map` with a function "
        "without captures");
  }
  /// For the library's own use. Returns true if `value_for` has a value of the
  /// replica, or throws why it is lost.
  bool provides(std::uint32_t replica) const {
    return std::ranges::binary_search(ids_, replica)
           || (others_ && others_->provides(replica));
  }
  /// Calls `fn` with the value of each replica, in order of replica id, on the
  /// caller's thread.
  /// @returns the results under the same replica ids. If `fn` has no state
  ///          (`is_stateless_function`), they also have a value for a replica
  ///          that this process takes over, for which `fn` is called then.
  template <class F>
  auto map(F&& fn) const {
    std::vector<std::decay_t<std::invoke_result_t<F&, reference>>> results;
    results.reserve(size());
    for (reference value : values_)
      results.push_back(std::invoke(fn, value));
    using result = typename decltype(results)::value_type;
    std::shared_ptr<const value_source<result>> others;
    if constexpr (is_stateless_function<std::decay_t<F>>)
      if (others_)
        others = std::make_shared<mapped_values<T, std::decay_t<F>, result>>(
          *this, fn);
    return per_replica<result>{std::move(results), ids_, std::move(others)};
  }
  const std::vector<T>& values() const { return values_; }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }

private:
  std::string id_text() const {
    std::string text;
    for (const auto id : ids_)
      text += (text.empty() ? "" : ", ") + std::to_string(id);
    return "{" + text + "}";
  }

  std::vector<T> values_;
  std::vector<std::uint32_t> ids_;
  std::shared_ptr<const value_source<T>> others_; ///< Null: none.
};

/// What a function makes of the values of another `per_replica`.
template <class T, class F, class U>
class mapped_values final : public value_source<U> {
public:
  mapped_values(per_replica<T> values, F fn)
    : values_{std::move(values)}, fn_{std::move(fn)} {}

  bool provides(std::uint32_t replica) const override {
    return values_.provides(replica);
  }

private:
  U make(std::uint32_t replica, const char* call) const override {
    auto fn = fn_;
    return std::invoke(fn, values_.value_for(replica, call));
  }

  const per_replica<T> values_;
  const F fn_;
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
  return x.value_for(id, "run");
}

} // namespace troupe
