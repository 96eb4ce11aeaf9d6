#pragma once

#include "troupe/tensors/tensor.hpp"

#include <cstddef>
#include <map>
#include <unordered_map>

namespace troupe {

struct op_call;

/// The tensors that the work of a capture reads or writes and whose memory does
/// not belong to the graph, such as parameters. The graph owns this object, so
/// no other tensor gets their memory while the graph exists. From its
/// construction to `end`, the object collects what the calling thread gives to
/// the device.
class captured_operands {
public:
  /// @pre the calling thread captures nothing else.
  explicit captured_operands(const device& on) : on_{on} { of_thread = this; }
  ~captured_operands() { end(); }
  captured_operands(const captured_operands&) = delete;
  captured_operands& operator=(const captured_operands&) = delete;

  /// Ends the collection.
  void end() {
    if (of_thread == this)
      of_thread = nullptr;
  }

  /// Notes memory that the calling thread has allocated. If the thread
  /// captures work of the device, the memory belongs to the graph.
  static void note_allocated(const std::byte* block, std::size_t bytes,
                             const device& on) {
    if (of_thread && of_thread->on_ == on)
      of_thread->own_[block] = bytes;
  }
  /// Keeps an operand if the calling thread captures work of its device.
  static void keep(const tensor& x) {
    if (of_thread)
      of_thread->add(x);
  }
  /// Keeps all operands of a call of a kernel.
  static void keep(const op_call& call) {
    if (of_thread)
      of_thread->add(call);
  }

private:
  void add(const tensor& x);
  void add(const op_call& call);
  bool is_own(const std::byte* address) const;

  /// The collection of the calling thread. Null: none.
  static inline thread_local constinit captured_operands* of_thread = nullptr;

  const device on_;
  std::map<const std::byte*, std::size_t> own_;       ///< Size of each block.
  std::unordered_map<const std::byte*, tensor> kept_; ///< By address.
};

} // namespace troupe
