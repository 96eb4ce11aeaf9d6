#pragma once

#include "troupe/actors/protocol/closure.hpp"
#include "troupe/actors/protocol/closure_owner.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace troupe {

/// A value for each worker of a coordinator. A closure that gets it as an
/// argument receives the value of the worker that executes it. The value is
/// made when a worker needs it first, so workers can be added. A handle.
template <class T>
class per_worker {
public:
  /// @param servers name of the strategy whose workers have the values. Empty:
  ///        the one whose closure uses a value first.
  explicit per_worker(std::function<T(std::uint32_t worker)> make,
                      std::string servers = {})
    : state_{std::make_shared<state>()} {
    state_->make = std::move(make);
    state_->servers = std::move(servers);
  }

  /// Returns the value of a worker. Only one thread at a time may use it.
  T& at(std::uint32_t worker) const {
    const std::lock_guard hold{state_->lock};
    auto& one = state_->values[worker];
    if (!one)
      one = std::make_unique<T>(state_->make(worker));
    return *one;
  }

  /// Returns the value of the worker that executes the calling closure.
  /// @errors throws std::logic_error outside of closures, and in a closure of
  ///         another strategy, whose workers have the same numbers.
  T& local() const {
    const auto* const closure = current_closure();
    if (!closure)
      throw std::logic_error("a per_worker value is read outside of a closure; "
                             "name the worker: at(worker)");
    check_owner(servers_of_closure());
    return at(closure->worker);
  }

private:
  void check_owner(std::string_view servers) const {
    const std::lock_guard hold{state_->lock};
    auto& owner = state_->servers;
    if (owner.empty())
      owner = servers;
    if (owner != servers)
      throw std::logic_error("a value or dataset per worker belongs to "
                             "parameter_server_strategy "
                             + owner + ", but the closure that uses it to "
                             + std::string{servers}
                             + "; make it with its coordinator");
  }

  struct state {
    std::function<T(std::uint32_t)> make;
    std::mutex lock;     // guards all below
    std::string servers; ///< Name of the strategy. Empty: not known yet.
    std::map<std::uint32_t, std::unique_ptr<T>> values;
  };
  std::shared_ptr<state> state_;
};

template <class T>
constexpr bool is_per_worker = false;
template <class T>
constexpr bool is_per_worker<per_worker<T>> = true;

} // namespace troupe
