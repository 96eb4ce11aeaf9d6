#pragma once

#include <cstdint>
#include <memory>

namespace troupe {

class tape;
/// Primitives that a device library such as oneDNN prepared, by shape.
struct kernel_cache;

/// Key of the random numbers that the current code draws. It has counters but
/// no hidden state, so a repeated step draws the same numbers.
struct random_key {
  /// Seed of the job.
  std::uint64_t seed = 0;
  std::uint32_t replica = 0; ///< Logical replica id.
  std::uint64_t step = 0;    ///< Global step, counted from 0.
  /// Number of the random op in this step; each random op increments it.
  std::uint32_t op = 0;
};

/// State of the running code, such as its tape and random key. Each replica has
/// its own context, on whichever thread it runs. A thread that runs no replica
/// has a default context. Code that switches fibers on a thread must exchange
/// the current context too.
struct context {
  context();
  ~context();
  context(const context&) = delete;
  context& operator=(const context&) = delete;

  tape* recording = nullptr; ///< Innermost tape. Null: none.
  /// Number of the replica among the replicas of this process. The running code
  /// uses the gradient buffer with this index. If each replica has its own
  /// copies of the variables, the code also uses the copies with this index.
  std::uint32_t copy_index = 0;
  random_key random;
  /// Points to an `execution_scope` of training/: the strategy in scope and, in
  /// replica context, the replica. tensors/ does not read it. Null: no strategy
  /// is in scope.
  const void* execution_scope = nullptr;
  /// Tensors that the code makes may lie in memory that other processes of the
  /// job can read (`memory::use_shared_region`).
  bool makes_shareable_tensors = true;
  /// On a device that has TF32, products and convolutions in float32 may round
  /// their inputs to TF32. It has 11 bits of precision and the range of
  /// float32. They are several times faster then. The backward pass of an op
  /// does what its forward pass was allowed.
  bool allows_tf32 = false;
  /// Primitives that oneDNN has prepared. Null before the first use of oneDNN.
  std::unique_ptr<kernel_cache> kernels;
};

/// Returns the context of the running code. Do not keep the reference across a
/// wait or a fiber switch.
context& current_context() noexcept;

/// Installs another context and returns the previous one.
/// @param next Null: the thread's default context.
context* exchange_context(context* next) noexcept;

/// Installs a context for the lifetime of this object.
class context_scope {
public:
  explicit context_scope(context& in) : before_{exchange_context(&in)} {}
  ~context_scope() { exchange_context(before_); }
  context_scope(const context_scope&) = delete;
  context_scope& operator=(const context_scope&) = delete;

private:
  context* before_;
};

/// For the lifetime of this object, sets whether the current code makes
/// shareable tensors. Tensors that it never contributes to a collective, such
/// as parameters, need not be: memory of this process takes less time to get.
class sharing_scope {
public:
  explicit sharing_scope(bool makes_shareable_tensors);
  ~sharing_scope();
  sharing_scope(const sharing_scope&) = delete;
  sharing_scope& operator=(const sharing_scope&) = delete;

private:
  bool before_;
};

/// For the lifetime of this object, sets whether the current code may use TF32.
class tf32_scope {
public:
  explicit tf32_scope(bool allows);
  ~tf32_scope();
  tf32_scope(const tf32_scope&) = delete;
  tf32_scope& operator=(const tf32_scope&) = delete;

private:
  bool before_;
};

/// Sets the number of threads that ops of the calling thread use.
/// @pre `count >= 1`.
void use_threads(int count);

} // namespace troupe
