#pragma once

#include "troupe/tensors/tensor.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// Tensors of several replicas in one message.
struct input_list {
  /// Replicas of the job, ascending. Empty, with one tensor count: every
  /// replica gets all tensors. Empty, without a tensor count: no inputs.
  std::vector<std::uint32_t> replica_ids{};
  /// Number of tensors of each of these replicas, or the number of all tensors.
  std::vector<std::uint32_t> tensor_counts{};
  tensors all; ///< The tensors of one replica after those of another.
};

/// Returns why the numbers of a list do not fit. Empty: they do.
std::string fault_of(const input_list& inputs);

/// The inputs of the request that a worker serves. Inputs of a replica that the
/// worker takes over while the request runs arrive later than the request, so
/// that replica waits for them. Thread-safe.
class request_inputs {
public:
  /// A request begins.
  /// @param number number of the request, which the client increments.
  /// @returns false if another request has not ended.
  bool begin(std::uint64_t number, const input_list& inputs);

  /// Adds inputs of further replicas. @returns false, without effect, if the
  /// request with this number has not begun or has ended.
  bool add(std::uint64_t number, const input_list& inputs);

  /// The request has ended. Releases its inputs.
  void end();

  /// Returns the inputs that all replicas get.
  /// @errors throws `job_error` (protocol) if each replica has its own.
  tensors common() const;

  /// Returns the inputs of a replica.
  /// @errors throws `job_error` (stalled) if they do not arrive in time, and
  ///         `superseded` after `close`: then the run of the replica has ended.
  tensors wait_for(std::uint32_t replica, std::chrono::milliseconds timeout);

  /// Ends all waits, and those that begin later.
  void close();

private:
  void put(const input_list& inputs);

  mutable std::mutex lock_;
  std::condition_variable changed_;
  std::optional<std::uint64_t> number_; ///< Number of the active request.
  std::optional<tensors> common_;
  std::map<std::uint32_t, tensors> by_replica_;
  bool closed_ = false;
};

} // namespace troupe
