#pragma once

#include "troupe/training/strategies/nccl_devices.hpp"
#include "troupe/training/strategies/strategy.hpp"

#include <chrono>
#include <string>
#include <vector>

// The strategies of one machine. Each class differs from `strategy` only in its
// constructor.

namespace troupe {

class runtime;

/// The strategy of code outside any scope. It has one replica on "cpu:0", on
/// the calling thread.
class default_strategy : public strategy {
public:
  default_strategy();
};

struct one_device_options {
  /// Number of logical replicas, which run in turn on the device. The weights
  /// are bitwise equal to the weights of a job with one device per replica.
  std::uint32_t replicas = 1;
  int threads = 1; ///< Threads of each replica's ops.
};

/// Runs all computation on one device, on the calling thread.
class one_device_strategy : public strategy {
public:
  /// @errors throws std::invalid_argument if the device does not exist or an
  ///         option is below 1.
  explicit one_device_strategy(const std::string& device,
                               const one_device_options& options = {});
};

struct mirrored_options {
  int threads = 1; ///< Threads of each replica's ops.
  /// Timeout of one step and of each wait in it.
  std::chrono::milliseconds step_timeout{60'000};
  /// What adds the gradients of `fit` on several CUDA devices. `automatic`
  /// selects NCCL if all of them can use it. The bits do not depend on it.
  communication_options::backends collectives =
    communication_options::backends::automatic;
  /// For tests: makes the NCCL device of a CUDA device. Null: that of the card.
  nccl_device_maker nccl_device{};
};

/// Runs one replica on each device. Each replica is an actor with its own
/// thread. On CPUs, the replicas share one copy of the parameters: after each
/// backward pass they add their gradients and update the parameters together.
/// On several CUDA devices, each replica has a copy. The replicas sum each
/// bucket of gradients as soon as it is complete, and each updates its copy.
class mirrored_strategy : public strategy {
public:
  /// @param local_runtime outlives the strategy and everything made in its
  ///        scope.
  /// @param devices names of the devices.
  /// @errors throws std::invalid_argument if no device is named, or if a device
  ///         does not exist or is named twice. Throws it if an option is below
  ///         1, or if NCCL is required and a device cannot use it.
  mirrored_strategy(runtime& local_runtime,
                    const std::vector<std::string>& devices,
                    const mirrored_options& options = {});
};

struct central_storage_options {
  /// Name of the device that stores the variables and the optimizers' slots.
  /// Empty: with one compute device, that device; with several, "cpu:0". All
  /// CPU devices share the memory of the host.
  std::string parameter_device{};
  int threads = 1; ///< Threads of each replica's ops.
  /// Timeout of one step and of each wait in it.
  std::chrono::milliseconds step_timeout{60'000};
};

/// Runs one replica on each compute device, and stores the variables and the
/// optimizers' slots once, on the parameter device. Each replica is an actor
/// with its own thread. After each backward pass the gradients are added in the
/// order of the canonical tree, and the parameters are updated once. So the
/// weights are bitwise equal to those of `mirrored_strategy` with as many
/// replicas.
/// @cost of a step: that of `mirrored_strategy`, whose replicas share one copy
///       too. The memory of variables and slots does not depend on the number
///       of replicas; each replica has gradients of its own.
/// @source tf.distribute.experimental.CentralStorageStrategy. There, replicas
///         and variables may be on different kinds of devices.
class central_storage_strategy : public strategy {
public:
  /// @param local_runtime outlives the strategy and everything made in its
  ///        scope.
  /// @param devices names of the compute devices.
  /// @errors throws std::invalid_argument if no device is named, or if a device
  ///         does not exist or is named twice. Throws it if an option is below
  ///         1, or if the compute devices cannot read the memory of the
  ///         parameter device. CPUs and one CUDA device read their own memory
  ///         only.
  central_storage_strategy(runtime& local_runtime,
                           const std::vector<std::string>& devices,
                           const central_storage_options& options = {});
};

} // namespace troupe
