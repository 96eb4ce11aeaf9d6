#pragma once

#include "troupe/training/strategies/communication.hpp"
#include "troupe/training/strategies/reduce_op.hpp"

#include <cstdint>

namespace troupe {

/// A replica's view of the step that it runs: its id, and the collectives with
/// the other replicas. All replicas must make the same calls in the same order.
/// A replica that does not is named in the error when the step's timeout
/// expires.
class replica_context {
public:
  virtual ~replica_context() = default;

  std::uint32_t replica_id() const { return id_; }
  std::uint32_t num_replicas_in_sync() const { return replicas_; }

  /// Returns the elementwise sum or mean over all replicas, bitwise equal on
  /// all. The mean divides by the number of replicas. A sum is shared with
  /// other replicas: clone it before writing to it. It shares no memory with
  /// `x`, which may be changed afterwards.
  /// @shape x equal on all replicas; float32, float64, int32 or int64.
  /// @param options of this call. If replicas pass different options, the step
  ///             fails with an error that shows two of them.
  /// @errors throws std::logic_error while a tape records `x`, because
  ///         gradients do not flow through an all-reduce; std::invalid_argument
  ///         for invalid options. An expired timeout ends the step:
  ///         ec::stalled.
  /// @cost float32 is summed by the all-reduce itself; other dtypes are
  ///       gathered first. With one replica it copies `x`.
  tensor all_reduce(reduce_op op, const tensor& x,
                    const call_options& options = {});

  /// Returns one sum per tensor. All tensors are sent before the first sum is
  /// awaited; small float32 tensors are fused (tensor_packs.hpp). Fusion
  /// changes no bit of the tree's sums, but may change those of the ring.
  tensors all_reduce(reduce_op op, const tensors& xs,
                     const call_options& options = {});

  /// Concatenates the tensors of all replicas along an axis, in order of
  /// replica id.
  /// @shape x rank >= 1; extents may differ along `axis`.
  /// @param options as in `all_reduce`; the implementation has no effect.
  tensor all_gather(const tensor& x, int axis = 0,
                    const call_options& options = {});

  /// Returns the tensors of all replicas, by replica id, in any shapes and
  /// dtypes. They share no memory with `x`.
  tensors all_gather_list(const tensor& x);

  /// Returns the tensor of replica `root` on all replicas; the others may pass
  /// `{}`. The result shares no memory with `x`.
  /// @errors throws std::logic_error if there is no replica `root`.
  tensor broadcast(const tensor& x, std::uint32_t root = 0);

protected:
  replica_context(std::uint32_t id, std::uint32_t replicas,
                  std::size_t bytes_per_pack = 0)
    : id_{id}, replicas_{replicas}, bytes_per_pack_{bytes_per_pack} {}

private:
  /// Starts a sum; `finish_sum` with its number waits for it.
  virtual void start_sum(std::uint32_t number, const tensor& x) = 0;
  virtual tensor finish_sum(std::uint32_t number) = 0;
  virtual tensors gather(std::uint32_t number, const tensor& x) = 0;
  /// Collectives that start until `end_call` use these options.
  virtual void begin_call(const call_options&) {}
  virtual void end_call() {}

  struct call;
  tensors reduce_tensors(reduce_op op, const tensors& xs,
                         std::size_t bytes_per_pack);

  std::uint32_t id_, replicas_;
  std::size_t bytes_per_pack_;
  /// Number of the next collective of this step.
  std::uint32_t next_collective_ = 0;
};

} // namespace troupe
