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
  /// Number of threads for actors without their own thread. Zero: one per core,
  /// at least 2.
  std::size_t threads = 0;
  /// Timeout of the destructor's wait for actors that do not terminate.
  std::chrono::milliseconds shutdown_timeout{5000};
  /// Receives a sentence about actors that were abandoned. Empty: it is written
  /// to standard error.
  std::function<void(const std::string&)> log;
};

/// An actor system of this process. A process may have several runtimes. A
/// runtime never ends the process and installs no signal handler.
class runtime {
public:
  explicit runtime(const runtime_options& options = {});

  /// Waits for the end of its actors until the timeout. Actors that have not
  /// terminated then are abandoned with their threads, which is logged. Replica
  /// groups must be destroyed before: each terminates its own roles.
  ~runtime();
  runtime(const runtime&) = delete;
  runtime& operator=(const runtime&) = delete;

  /// The actor system, for roles of the program itself.
  caf::actor_system& system();

  /// The roles that other processes may spawn in this one (role_registry.hpp).
  std::shared_ptr<role_registry> roles() const;

  /// A random number that identifies this runtime among all processes.
  std::uint64_t incarnation() const;

private:
  struct impl;
  runtime_options options_;
  std::unique_ptr<impl> impl_;
};

} // namespace troupe
