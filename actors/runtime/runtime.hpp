#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace caf {
class actor_system;
}

namespace troupe {

class role_registry;

struct runtime_options {
  /// Threads for the actors that have none of their own; 0: one per core, at
  /// least 2.
  std::size_t threads = 0;
  /// Longest that the end waits for actors that will not end.
  std::chrono::milliseconds patience{5000};
  /// Hears, in a sentence, what was left behind; default: standard error.
  std::function<void(const std::string&)> log;
};

/// The actors of this process. There may be several in one; each ends what runs
/// in it. It never ends the process and installs no signal handler.
class runtime {
public:
  explicit runtime(const runtime_options& options = {});

  /// Waits for its actors to end, by the deadline; lets go of those that do not
  /// and says so in the log. Crews should be gone by then: each ends its own.
  ~runtime();
  runtime(const runtime&) = delete;
  runtime& operator=(const runtime&) = delete;

  /// For roles of one's own.
  caf::actor_system& system();

  /// The roles that other processes may spawn here (role_registry.hpp).
  std::shared_ptr<role_registry> roles() const;

  /// A random number: another process, or runtime, has another.
  std::uint64_t incarnation() const;

private:
  struct impl;
  runtime_options options_;
  std::unique_ptr<impl> impl_;
};

} // namespace troupe
