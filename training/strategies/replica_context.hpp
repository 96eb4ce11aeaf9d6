#pragma once

#include "troupe/training/strategies/communication.hpp"
#include "troupe/training/strategies/reduce_op.hpp"

#include <cstdint>

namespace troupe {

/// A replica's view of the step that it runs: who it is, and what it may ask of
/// the others. All replicas must make the same calls in the same order; one
/// that does not is named when the others' patience ends.
class replica_context {
public:
  virtual ~replica_context() = default;

  std::uint32_t replica_id() const { return id_; }
  std::uint32_t num_replicas_in_sync() const { return replicas_; }

  /// The elementwise sum or mean over all replicas, the same bits for all. The
  /// mean divides by the number of replicas. A sum is shared with other
  /// replicas: clone it before writing to it. It shares no memory with `x`,
  /// which may change again.
  /// @shape x  the same on all replicas; float32, float64, int32 or int64.
  /// @param how of this call; all replicas give the same, or the step ends with
  ///            the two that differ.
  /// @errors throws std::logic_error while a tape records `x`: no gradient
  ///         passes an all-reduce; std::invalid_argument for options that
  ///         cannot be. A timeout that is over ends the step: ec::stalled.
  /// @cost float32 is summed as it comes; other dtypes are gathered first. With
  ///       one replica a copy of `x`.
  tensor all_reduce(reduce_op op, const tensor& x,
                    const call_options& how = {});

  /// One sum per tensor; all of them travel before the first is waited for, and
  /// small float32 ones together (packs.hpp), which changes no bit of a tree's
  /// sums; those of a ring may have others.
  tensors all_reduce(reduce_op op, const tensors& xs,
                     const call_options& how = {});

  /// What all replicas bring, one after the other along an axis, in order of
  /// replica id. @shape x  rank >= 1; extents may differ along `axis`.
  /// @param how as in `all_reduce`; its implementation changes nothing.
  tensor all_gather(const tensor& x, int axis = 0,
                    const call_options& how = {});

  /// What all replicas bring, by replica id: any shapes and dtypes. It shares
  /// no memory with `x`.
  tensors all_parts(const tensor& x);

  /// What replica `root` brings, for all; others may bring nothing, `{}`. It
  /// shares no memory with `x`.
  /// @errors throws std::logic_error for a root that there is not.
  tensor broadcast(const tensor& x, std::uint32_t root = 0);

protected:
  replica_context(std::uint32_t id, std::uint32_t replicas,
                  std::size_t bytes_per_pack = 0)
    : id_{id}, replicas_{replicas}, bytes_per_pack_{bytes_per_pack} {}

private:
  /// Begins to sum; `finish_sum` of the same number waits.
  virtual void start_sum(std::uint32_t number, const tensor& x) = 0;
  virtual tensor finish_sum(std::uint32_t number) = 0;
  virtual tensors gather(std::uint32_t number, const tensor& x) = 0;
  /// What is started from here on is of a call with these options.
  virtual void begin_call(const call_options&) {}
  virtual void end_call() {}

  struct call;
  tensors sums_of(reduce_op op, const tensors& xs, std::size_t bytes_per_pack);

  std::uint32_t id_, replicas_;
  std::size_t bytes_per_pack_;
  std::uint32_t next_ = 0; ///< Numbers the exchanges of this step.
};

} // namespace troupe
