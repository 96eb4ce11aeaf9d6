#pragma once

#include "troupe/training/parameter_server/unfinished_closures.hpp"

#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace troupe {

/// The error of a closure that was cancelled, because another one has thrown.
struct closure_cancelled : std::runtime_error {
  closure_cancelled()
    : std::runtime_error{"the closure was cancelled, because another one has "
                         "thrown or the coordinator has ended; schedule it "
                         "again"} {}
};

/// The result of a closure, which a `cluster_coordinator` has scheduled. It is
/// still there after its worker has ended. A handle: copies refer to the same
/// result. Any thread may use it.
template <class T>
class remote_value {
public:
  remote_value_status status() const { return result_->status(); }

  /// Waits until the closure is done, without a limit: its function decides how
  /// long it takes.
  /// @returns its result. The reference is valid while a copy of this object
  ///          exists.
  /// @errors rethrows what the function has thrown. Throws `closure_cancelled`.
  std::conditional_t<std::is_void_v<T>, void,
                     std::add_lvalue_reference_t<const T>>
  get() const {
    const auto& payload = result_->get();
    if constexpr (!std::is_void_v<T>)
      return *static_cast<const T*>(payload.get());
  }

  /// For the library's own use.
  explicit remote_value(std::shared_ptr<const closure_result> x)
    : result_{std::move(x)} {}
  const std::shared_ptr<const closure_result>& state() const { return result_; }

private:
  std::shared_ptr<const closure_result> result_;
};

template <class T>
constexpr bool is_remote_value = false;
template <class T>
constexpr bool is_remote_value<remote_value<T>> = true;

} // namespace troupe
