#pragma once

#include "troupe/tensors/parameter_gradient.hpp"
#include "troupe/training/strategies/replica/call_comparison.hpp"
#include "troupe/training/strategies/replica/communication.hpp"
#include "troupe/training/strategies/replica/reduce_op.hpp"

#include <cstdint>

namespace troupe {

/// Gives the code of one replica, during a step, the replica's id and
/// collectives with the other replicas. All replicas must make the same calls
/// in the same order. If a replica omits a call, the step fails with an error
/// that names that replica. It fails at once if the replicas call different
/// collectives, else at the step's timeout. If two replicas pass different
/// operations, roots, axes or shapes, the step fails with std::logic_error that
/// shows both replicas and values. It fails in the call if the replicas are in
/// one process. Otherwise it fails at its end, and changes nothing.
class replica_context {
public:
  virtual ~replica_context() = default;

  std::uint32_t replica_id() const { return id_; }
  std::uint32_t num_replicas_in_sync() const { return replicas_; }
  /// Device of this replica's variables, and of its rows of a
  /// `distributed_dataset`.
  const troupe::device& device() const { return device_; }

  /// Returns the elementwise sum or mean over all replicas. The result is
  /// bitwise equal on all replicas. The mean divides by the number of replicas.
  /// NCCL adds float32 tensors that are on the devices of the replicas, where
  /// it adds the gradients of `fit` too; the host adds all others. A sum may
  /// share memory with the sums of other replicas: clone the sum before writing
  /// to it. A result shares no memory with `x`, so `x` may be changed
  /// afterwards, and is on the device of `x`.
  /// @shape x equal on all replicas, and on the device of the replica or on the
  ///        host in all of them; float32, float64, int32 or int64. If two
  ///        replicas pass different shapes or dtypes, the step fails with an
  ///        error that shows both.
  /// @param options options of this call. If two replicas pass different
  ///        options, the step fails with an error that shows both options.
  /// @errors throws std::logic_error if a tape records `x`, because gradients
  ///         do not flow through an all-reduce. Throws std::invalid_argument
  ///         for invalid options. An expired timeout ends the step with
  ///         `ec::stalled`.
  /// @cost for float32, one all-reduce. For other dtypes, an all-gather, and
  ///       then each replica adds all tensors. With one replica, a copy of `x`.
  tensor all_reduce(reduce_op op, const tensor& x,
                    const call_options& options = {});

  /// Returns the sum or mean of each tensor. It sends all float32 tensors
  /// before it waits for the first sum, and fuses small tensors into packs
  /// (tensor_packs.hpp). Packs change no bit of the sums of `tree`, but may
  /// change bits of the sums of `ring`. If two replicas pass different numbers
  /// of tensors, of which none is 0, the step fails with an error that shows
  /// both numbers.
  tensors all_reduce(reduce_op op, const tensors& xs,
                     const call_options& options = {});

  /// Returns the sum or mean of each gradient. The result of sparse ones is
  /// sparse: it has the rows that any replica has, added in the order of
  /// `sum_over_replicas` (sparse_rows.hpp). The results share no memory with
  /// `xs`.
  /// @shape xs equal on all replicas, but for the rows of sparse gradients. A
  ///        replica without rows passes `sparse_rows::zeros`.
  /// @errors throws std::logic_error if sparse gradients differ in shape or
  ///         dtype. If a gradient is sparse on some replicas only, the step
  ///         fails with an error.
  /// @cost for a sparse gradient, two all-gathers of its rows, and then each
  ///       replica adds them.
  parameter_gradients all_reduce(reduce_op op, const parameter_gradients& xs,
                                 const call_options& options = {});

  /// Concatenates the tensors of all replicas along an axis, in order of
  /// replica id.
  /// @shape x rank >= 1; extents may differ along `axis`.
  /// @param options as in `all_reduce`, but `implementation` has no effect.
  tensor all_gather(const tensor& x, int axis = 0,
                    const call_options& options = {});

  /// Returns the tensors of all replicas, by replica id. The tensors may have
  /// any shapes and dtypes. The results share no memory with `x`.
  tensors all_gather_list(const tensor& x);

  /// Returns the tensor of replica `root` on all replicas. All other replicas
  /// may pass `{}`. The result shares no memory with `x`, and is on `device()`.
  /// @errors throws std::logic_error if there is no replica `root`.
  tensor broadcast(const tensor& x, std::uint32_t root = 0);

  /// For the library's own use. Waits until all replicas have called it, and
  /// returns their values in order of replica id (step_context::barrier).
  pooled<std::uint64_t> barrier(std::uint64_t value);

  /// For the library's own use. Returns the calls of this step.
  const replica_calls& calls() const { return calls_; }

protected:
  replica_context(std::uint32_t id, std::uint32_t replicas,
                  std::size_t bytes_per_pack = 0, const troupe::device& on = {})
    : id_{id},
      replicas_{replicas},
      bytes_per_pack_{bytes_per_pack},
      device_{on} {}

private:
  /// True: `start_sum` takes tensors on the device of this replica too.
  virtual bool takes_device_tensors() const { return false; }
  /// Starts a sum. `finish_sum` with the same number waits for the sum.
  virtual void start_sum(std::uint32_t number, const tensor& x) = 0;
  virtual tensor finish_sum(std::uint32_t number) = 0;
  virtual tensors gather(std::uint32_t number, const tensor& x) = 0;
  virtual pooled<std::uint64_t> wait_at_barrier(std::uint32_t number,
                                                std::uint64_t value) = 0;
  /// Sets the options of all collectives that start before `end_call`.
  /// `tensors` is the number of tensors that the caller passed.
  virtual void begin_call(const call_options&, std::size_t /*tensors*/) {}
  virtual void end_call() {}
  /// Compares a call with those of the other replicas of this process at the
  /// same place of the step.
  virtual void compare_call(std::size_t /*index*/, const replica_call&) {}

  struct call;
  void note_call(const replica_call& made);
  void check_equal_specs(const replica_call& made, std::size_t index,
                         const tensors& all) const;
  tensors gather_list(const tensor& x);
  sparse_rows reduce_rows(reduce_op op, const sparse_rows& x,
                          std::uint32_t number);
  tensor on_host(const tensor& x) const;
  bool are_summed_on_device(const tensors& xs,
                            const call_options& options) const;
  tensors gather_on_host(std::uint32_t number, const tensor& x);
  tensors reduce_tensors(reduce_op op, const tensors& xs,
                         const call_options& options);

  std::uint32_t id_, replicas_;
  std::size_t bytes_per_pack_;
  troupe::device device_;
  /// Number of the next collective of this step.
  std::uint32_t next_collective_ = 0;
  replica_calls calls_; ///< Calls of this step. Empty: there is one replica.
};

} // namespace troupe
