#pragma once

#include "troupe/actors/core/step.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace troupe {

/// Step functions of a process by the names that messages carry. Safe to use
/// from any thread.
class step_book {
public:
  void put(const std::string& name, std::shared_ptr<const step_function> fn) {
    const std::lock_guard hold{lock_};
    pages_[name] = std::move(fn);
  }

  void drop(const std::string& name) {
    const std::lock_guard hold{lock_};
    pages_.erase(name);
  }

  /// @returns the function; null if none has this name.
  std::shared_ptr<const step_function> find(const std::string& name) const {
    const std::lock_guard hold{lock_};
    const auto it = pages_.find(name);
    return it == pages_.end() ? nullptr : it->second;
  }

private:
  mutable std::mutex lock_;
  std::map<std::string, std::shared_ptr<const step_function>> pages_;
};

} // namespace troupe
