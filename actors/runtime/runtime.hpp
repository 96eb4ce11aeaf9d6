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
  /// Maximum time for which the destructor waits for actors to terminate.
  std::chrono::milliseconds shutdown_timeout{5000};
  /// Receives a sentence about actors that were abandoned. Empty: the sentence
  /// is written to standard error.
  std::function<void(const std::string&)> log;
};

/// An actor system of this process. A process may have several runtimes. A
/// runtime never ends the process. It installs one signal handler, for SIGSEGV,
/// which only adds a sentence if the stack of a step overflows
/// (stack_overflow.hpp). A handler of the program takes precedence.
class runtime {
public:
  explicit runtime(const runtime_options& options = {});

  /// Waits until all actors have terminated, but at most for
  /// `shutdown_timeout`. Then the remaining actors and their threads are
  /// abandoned, and a log message says so. Replica groups must be destroyed
  /// before the runtime.
  ~runtime();
  runtime(const runtime&) = delete;
  runtime& operator=(const runtime&) = delete;

  /// Returns the actor system, in which the program may spawn its own actors.
  caf::actor_system& system();

  /// Returns the roles that other processes may spawn in this process
  /// (role_registry.hpp).
  std::shared_ptr<role_registry> roles() const;

  /// Returns a random number that identifies this runtime among all processes.
  std::uint64_t incarnation() const;

private:
  struct impl;
  runtime_options options_;
  std::unique_ptr<impl> impl_;
};

} // namespace troupe
