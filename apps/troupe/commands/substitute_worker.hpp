#pragma once

#include "troupe/training/parameter_server/cluster_coordinator.hpp"

#include <functional>
#include <string>
#include <thread>

/// Makes this process a worker when a run is to end and no other worker is
/// left. So the steps that have begun are completed.
class substitute_worker {
public:
  /// @param coordinator outlives this object.
  /// @param address     of a node of this process that has registered the
  ///                    closures.
  /// @param is_stopped  the run is to end. Another thread calls it.
  substitute_worker(troupe::cluster_coordinator& coordinator,
                    std::string address, std::function<bool()> is_stopped);

private:
  std::jthread thread_;
};
