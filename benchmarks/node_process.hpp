#pragma once

#include <functional>
#include <string>
#include <sys/types.h>

namespace troupe {

class runtime;

namespace benchmarks {

/// A process that is a node (actors/node/node_server.hpp). The destructor kills
/// it.
class node_process {
public:
  /// Forks. The new process registers roles and serves them.
  /// @pre this process has started no thread.
  /// @errors throws std::runtime_error if it cannot be started.
  explicit node_process(const std::function<void(runtime&)>& register_roles);
  ~node_process();
  node_process(const node_process&) = delete;
  node_process& operator=(const node_process&) = delete;

  const std::string& address() const { return address_; } ///< "host:port"
  /// Returns the resident memory of the process in bytes.
  /// @errors throws std::runtime_error if it has ended.
  /// @source proc(5), VmRSS.
  double resident_bytes() const;

private:
  pid_t pid_;
  std::string address_;
};

} // namespace benchmarks
} // namespace troupe
