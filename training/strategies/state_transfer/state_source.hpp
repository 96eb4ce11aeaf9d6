#pragma once

#include "troupe/actors/membership/state_lanes.hpp"
#include "troupe/tensors/tensor.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace troupe {

/// Gives the state of a model that `fit` trains to processes that want to join,
/// while the replicas go on (docs/protocols/state_transfer.md).
///
///   who      a replica of this process, which tells each update, and a thread
///            for each process that follows
///   start    a process opens a lane. Its thread allocates the memory
///   on update   of the first step after that, the replica copies the state to
///            this memory. Of each later step it copies the summed gradient
///   thread   sends these copies, and takes their memory back
///   end      the process closes the lane because it has joined, the call is
///            complete, or the process does not keep up
///   cost     for the replica: one copy of the state, then one of the gradient
///            for each step until the process has joined. In memory: one copy
///            of the state and of `max_waiting` gradients for each process
///   faults   a process that does not keep up, or a step that this process has
///            copied from another one -> `ended`, with the reason
///            a lane that ends -> the memory is released
class state_source {
public:
  /// Number of steps whose gradients can wait to be sent to a process, the one
  /// that is sent included. More can wait as long as they have less than
  /// `waiting_bytes`.
  static constexpr std::size_t max_waiting = 3;
  static constexpr std::size_t waiting_bytes = std::size_t{128} << 20;
  /// Processes that can follow at the same time. Others join without a copy.
  static constexpr std::size_t max_followers = 2;

  /// @param lanes is owned by this object.
  explicit state_source(std::unique_ptr<state_lanes> lanes);
  /// Ends the threads; one that is opening its lane takes up to 2 s.
  ~state_source();
  state_source(const state_source&) = delete;
  state_source& operator=(const state_source&) = delete;

  /// The lanes, with which a process that joins itself finds a source.
  state_lanes& lanes();

  /// Replicas run steps of a call that changes a model.
  /// @param call     calls that this process has completed.
  /// @param elements of each tensor of the state, and of the gradient.
  /// @param tensors  of the state.
  void begin(std::uint64_t call, std::size_t elements, std::size_t tensors);
  /// The replicas have stopped for a view change, after which `begin` follows.
  void pause();
  /// The call is complete, or has failed for good. No step runs.
  void end();

  /// Elements of a gradient from `first` on.
  struct gradient_part {
    std::size_t first = 0;
    tensor sums; ///< [n] float32
  };
  /// An update that a replica of this process has made.
  struct update {
    std::uint64_t steps = 0; ///< Steps that the model has made with it.
    bool is_skipped = false; ///< It has changed nothing.
    std::uint64_t examples = 0;
    float learning_rate = 0;
    /// Parameters, then slots: [elements] float32 each.
    std::span<const tensor> state;
    /// The summed gradient in parts, in any order.
    std::span<const gradient_part> sums;
  };
  /// True if `on_update` has something to do.
  bool is_followed() const { return followed_.load(std::memory_order_relaxed); }
  /// Called by one replica of this process, after each of its updates.
  void on_update(const update& x);

private:
  struct impl;
  const std::unique_ptr<impl> impl_;
  std::atomic<bool> followed_{false};
};

} // namespace troupe
