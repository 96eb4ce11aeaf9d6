#pragma once

#include "troupe/tensors/base/device_error.hpp"
#include "troupe/tensors/tensor.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

// What the NCCL backend needs of CUDA and NCCL. `cuda_device` implements the
// interface with the libraries, and tests implement it without a device. All
// functions may be called from any thread, but not at the same time for one
// object. A function that may block says so; all others return at once,
// whatever the device and the other ranks do.

namespace troupe {

/// Identifies a communicator. Rank 0 makes the id, and all ranks need it.
using communicator_id = std::array<std::byte, 128>;

/// Memory that a device can access. It is freed with its last handle, so a
/// handle must be kept while work on a stream may access the memory.
using device_memory = std::shared_ptr<std::byte>;

/// Where memory is allocated. `device`: in the memory of the device. `pinned`:
/// in host memory that the device can access.
enum class memory_kind { device, pinned };

/// A point in a stream.
class device_event {
public:
  virtual ~device_event() = default;

  /// Returns true if all work before the point is done.
  /// @errors throws device_error if such work failed.
  virtual bool is_complete() = 0;
};

using device_event_ptr = std::shared_ptr<device_event>;

/// A queue of work that a device does in order. Each function adds work.
/// @errors all functions throw device_error.
class device_stream {
public:
  virtual ~device_stream() = default;

  /// Returns an event for the current end of the queue.
  virtual device_event_ptr record() = 0;
  /// Lets later work wait for an event of another stream.
  virtual void wait(const device_event& event) = 0;
  /// Copies between memories of the device and pinned memories.
  virtual void copy(std::byte* into, const std::byte* from,
                    std::size_t bytes) = 0;
  /// Copies the elements of a tensor. The call may last as long as the work
  /// that is in the queue if the tensor is in host memory.
  virtual void copy(std::byte* into, const tensor& from) = 0;
  /// Copies to the elements of a tensor on the device.
  virtual void copy(const tensor& into, const std::byte* from) = 0;
  /// Adds elements: `sum[i] = a[i] + b[i]`. `sum` may be `a`.
  /// @param type `float32` or `float64`.
  virtual void add(std::byte* sum, const std::byte* a, const std::byte* b,
                   std::size_t elements, dtype type) = 0;
};

/// State of a communicator.
enum class communicator_status {
  /// It is being initialised, or the last group is not in its stream yet.
  in_progress,
  ready,
  failed ///< `device_communicator::error` says why.
};

/// One rank's access to a communicator. Between `group_start` and `group_end`,
/// calls collect transfers; the group enters the stream as one piece of work.
/// A group may only start while the status is `ready`.
/// @errors all functions but `abort` throw device_error.
class device_communicator {
public:
  /// May block. @pre the communicator was aborted or finalised.
  virtual ~device_communicator() = default;

  virtual communicator_status status() = 0;
  /// Says why the communicator failed.
  virtual std::string error() = 0;

  virtual void group_start() = 0;
  /// Ends the group. Until the status is `ready` again, the group may be
  /// missing in the stream.
  virtual void group_end() = 0;
  /// Ends a group in which a call has failed. Otherwise the library would add
  /// the next group of this thread, of any communicator, to the open one.
  /// @pre the communicator is aborted next.
  virtual void abandon_group() noexcept = 0;
  /// Replaces the elements by their sum over all ranks. NCCL chooses the order
  /// of the additions.
  virtual void all_reduce(std::byte* elements, std::size_t count, dtype type,
                          device_stream& stream) = 0;
  virtual void send(const std::byte* from, std::size_t bytes,
                    std::uint32_t rank, device_stream& stream) = 0;
  virtual void receive(std::byte* into, std::size_t bytes, std::uint32_t rank,
                       device_stream& stream) = 0;

  /// Begins to end the communicator after its work is done. The status is
  /// `in_progress` until all ranks have called this.
  virtual void finalize() = 0;
  /// Ends all work of the communicator. May block. Work that was in the stream
  /// may still write to its memory. Such writes have ended when the stream has
  /// reached an event that is recorded after the call.
  virtual void abort() noexcept = 0;
};

/// A group of transfers. Its destructor abandons a group that was not ended,
/// because a call in it has thrown.
class transfer_group {
public:
  explicit transfer_group(device_communicator& of) : of_{&of} {
    of.group_start();
  }
  ~transfer_group() {
    if (of_)
      of_->abandon_group();
  }
  transfer_group(const transfer_group&) = delete;
  transfer_group& operator=(const transfer_group&) = delete;

  /// @errors throws device_error. The library has left the group then, too.
  void end() { std::exchange(of_, nullptr)->group_end(); }

private:
  device_communicator* of_; ///< Null: the group was ended.
};

/// The device of one rank, and the libraries with which it communicates.
/// @errors all functions throw device_error.
class communication_device {
public:
  virtual ~communication_device() = default;

  /// Identifies the device among those of all hosts.
  virtual std::string identity() = 0;
  /// Version of the library, such as "2.28.3".
  virtual std::string library_version() = 0;

  /// Makes the id of a communicator. May block.
  virtual communicator_id make_id() = 0;
  /// Joins a communicator. May block until all ranks have called it, or return
  /// a communicator that is `in_progress` until then.
  virtual std::unique_ptr<device_communicator>
  initialize(const communicator_id& id, std::uint32_t ranks,
             std::uint32_t rank) = 0;

  virtual std::shared_ptr<device_stream> make_stream() = 0;
  /// Returns the stream in which the ops on tensors of the device run.
  virtual std::shared_ptr<device_stream> compute_stream() = 0;
  /// Allocates memory, aligned to 64 bytes. The first calls may last some
  /// milliseconds; freed memory is used again.
  virtual device_memory allocate(memory_kind kind, std::size_t bytes) = 0;
  /// Returns a tensor on the host with the elements in `memory`, to which no
  /// work writes any more.
  virtual tensor tensor_of(const device_memory& memory,
                           const tensor_spec& spec) = 0;
};

} // namespace troupe
