#pragma once

#include "troupe/actors/core/step.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace troupe {

/// Step functions of a process, by the names that messages carry. Thread-safe.
class step_registry {
public:
  void add(const std::string& name, std::shared_ptr<const step_function> fn) {
    const std::lock_guard hold{lock_};
    functions_[name] = std::move(fn);
  }

  void remove(const std::string& name) {
    const std::lock_guard hold{lock_};
    functions_.erase(name);
  }

  /// Returns the function with this name. Null: no function has the name.
  std::shared_ptr<const step_function> find(const std::string& name) const {
    const std::lock_guard hold{lock_};
    const auto it = functions_.find(name);
    return it == functions_.end() ? nullptr : it->second;
  }

private:
  mutable std::mutex lock_;
  std::map<std::string, std::shared_ptr<const step_function>> functions_;
};

} // namespace troupe
