#pragma once

#include <string_view>

namespace troupe {

/// The part of a closure's environment that says whose servers it uses.
class closure_owner {
public:
  virtual ~closure_owner() = default;

  /// Returns the name of the servers that the worker uses, which no other
  /// servers have. Numbers of shards, parts and workers are unique among these
  /// servers only.
  virtual std::string_view servers() const = 0;
};

/// Returns the name of the servers of the closure that runs on this thread.
/// Empty: none runs.
std::string_view servers_of_closure();

} // namespace troupe
