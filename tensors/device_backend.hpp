#pragma once

#include "troupe/tensors/base/device_error.hpp"
#include "troupe/tensors/base/dtype.hpp"
#include "troupe/tensors/base/memory.hpp"
#include "troupe/tensors/device.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace troupe {

struct op;
struct op_kernels;
struct rule_coefficients;
class sparse_rows;
class tensor;

/// Memory, copies and kernels of all devices of one kind other than the CPU.
/// Thread-safe. A device does its work in the order of the calls, also of calls
/// of several threads one after the other. The work belongs to the stream
/// `compute`, unless the call names a stream. All sizes are at least 1.
class device_backend {
public:
  /// A device does the work of one stream in the order in which it was given,
  /// also if several threads give it. Work of two streams has no order but that
  /// of events.
  enum class stream : std::uint8_t {
    compute, ///< All work that does not name another stream.
    copy     ///< Copies that a device makes while it computes.
  };

  /// A point in the work of a stream. Not thread-safe. Until the first call of
  /// `record`, it lies before all work.
  class event {
  public:
    virtual ~event() = default;

    /// Moves the event behind the work that a stream has been given.
    virtual void record(stream in) = 0;
    /// Lets the work that a stream is given from now on begin after the event.
    /// Does not wait.
    virtual void block(stream later) = 0;
    /// Waits until the work before the event is done.
    /// @errors as a copy to the CPU.
    virtual void synchronize() = 0;
    /// True if the work before the event is done, or has failed. Does not wait.
    virtual bool is_done() = 0;
  };

  /// Work that was captured, and that one call gives to a device again. It has
  /// the addresses of its capture. Not thread-safe.
  class graph {
  public:
    /// Releases the memory of the graph. Does not wait for launched work.
    virtual ~graph() = default;

    /// Gives the work to the stream `compute`.
    /// @param step random ops draw the numbers of this step (`random_key`).
    /// @errors throws `device_error`.
    virtual void launch(std::uint64_t step) = 0;
  };

  /// While it lives, a device does not do the work that the calling thread
  /// gives to the stream `compute`: the work becomes a graph. The work of other
  /// threads is done as usual.
  ///
  /// The memory that the thread allocates meanwhile belongs to the graph: until
  /// the graph is destroyed, it is used by nothing else. Tensors that the work
  /// reads or writes are kept as long (captured_operands.hpp). Calls of this
  /// class do not keep what they get by address.
  ///
  /// Calls that need the host throw `device_error`: copies between a device and
  /// the CPU, and the functions of an event.
  class capture {
  public:
    /// Gives the work up, unless `end` has returned. The thread that began the
    /// capture calls it.
    virtual ~capture() = default;

    /// Number of captured ops that draw random numbers. The step of a launch
    /// decides which.
    virtual std::uint32_t random_ops() const = 0;
    /// Ends the capture. The device has done nothing of the work.
    /// @errors throws `device_error` if some work cannot be in a graph.
    virtual std::unique_ptr<graph> end() = 0;
  };

  virtual ~device_backend() = default;

  /// Number of devices, from index 0.
  virtual std::uint32_t count() const = 0;
  /// Returns a text for a person, such as the name of the card and its memory.
  virtual std::string describe(std::uint32_t index) = 0;
  /// Asks whether a device can be used further. Does not wait for its work.
  /// @errors throws `device_lost` if it has failed.
  virtual void check_usable(const device& on) = 0;

  // -- memory -----------------------------------------------------------------

  /// Returns a block of memory of the device, aligned to 64 bytes, which the
  /// host cannot read. Work that was given to the stream `compute` before may
  /// still use the block: another stream needs an event that is recorded after
  /// this call.
  /// @errors throws `device_error` that says how much is free, and
  ///         std::bad_alloc for the host's part.
  virtual std::byte* allocate(const device& on, std::size_t bytes) = 0;
  /// Releases a block when the work of the stream `compute` that uses it is
  /// done. Work of another stream needs an event that blocks `compute`.
  virtual void release(const device& on, std::byte* block,
                       std::size_t bytes) noexcept = 0;
  virtual memory::usage used(const device& on) = 0;

  /// Returns a block of host memory from which copies to the device are faster,
  /// aligned to 64 bytes.
  /// @errors throws std::bad_alloc.
  virtual std::byte* allocate_pinned(std::size_t bytes) = 0;
  virtual void release_pinned(std::byte* block, std::size_t bytes) noexcept = 0;

  // -- copies -----------------------------------------------------------------

  /// Copies between two devices, of which one may be the CPU. A copy to the CPU
  /// returns when it is done, and one from the CPU when `source` may change.
  /// The two ranges do not overlap.
  virtual void copy(const device& to, std::byte* target, const device& from,
                    const std::byte* source, std::size_t bytes) = 0;
  /// Starts a copy between a device and pinned memory of the host, of which one
  /// is `to`. Until an event after the copy is done, the pinned memory must not
  /// be released. It must not change if it is the source, and must not be read
  /// if it is the target.
  virtual void start_copy(const device& to, std::byte* target,
                          const device& from, const std::byte* source,
                          std::size_t bytes, stream in) = 0;
  virtual std::unique_ptr<event> make_event(const device& on) = 0;
  /// Converts `count` elements on a device, as `tensor::as` does.
  virtual void convert(const device& on, std::byte* target, dtype to,
                       const std::byte* source, dtype from,
                       std::size_t count) = 0;
  /// Sets `count` elements to a value, converted as by `tensor::full`.
  virtual void fill(const device& on, std::byte* target, dtype type,
                    double value, std::size_t count) = 0;
  /// Sets all bytes to zero.
  virtual void set_zero(const device& on, std::byte* target,
                        std::size_t bytes) = 0;

  // -- graphs -----------------------------------------------------------------

  /// Begins to capture the work of the calling thread on a device.
  /// @errors throws `device_error`, and std::logic_error if the thread captures
  ///         already.
  virtual std::unique_ptr<capture> begin_capture(const device& on) = 0;

  // -- kernels ----------------------------------------------------------------

  /// Returns the kernels of an op for a dtype. Null: there are none. The result
  /// of `add` may be its first input.
  virtual const op_kernels* find_kernels(const op& definition, dtype type) = 0;

  // -- rows of tensors --------------------------------------------------------

  /// Adds rows to a tensor, as `sparse_rows::add_to` does. The elements of the
  /// rows and `sum` are on one device, the indices there or on the CPU.
  virtual void add_rows(const sparse_rows& rows, tensor& sum) = 0;
  /// Returns the sums of the parts of each row, as `sparse_rows::sorted` does.
  /// The indices are on the CPU, the elements on the device of `rows`.
  virtual sparse_rows sum_rows(const sparse_rows& rows) = 0;

  // -- training ---------------------------------------------------------------

  /// Updates `n` parameters in float32, with the bits of the CPU. All addresses
  /// are on the device.
  /// @param slots first elements of the slots. Null: the rule has no such slot.
  /// @param is_skipped if it is not 0 when the device makes the update, nothing
  ///        is changed. Null: the update is made.
  virtual void update(const device& on, const rule_coefficients& step,
                      float* values, const float* gradient,
                      const std::array<float*, 2>& slots, std::size_t n,
                      const std::int32_t* is_skipped) = 0;
  /// Updates some rows of parameters in float32, with the bits of the CPU.
  /// @param values first element of the parameters, of which the rows are.
  /// @param gradient sorted, with the elements on the device.
  /// @param slots as for `update`, with the layout of the parameters.
  virtual void update_rows(const device& on, const rule_coefficients& step,
                           float* values, const sparse_rows& gradient,
                           const std::array<float*, 2>& slots) = 0;
  /// Sets `found` to 1 if the magnitude of an element exceeds `limit`, or an
  /// element is NaN. All addresses are on the device.
  virtual void find_exceeding(const device& on, const float* x, std::size_t n,
                              float limit, std::int32_t* found) = 0;
};

/// Sets the devices of a kind, in place of those of this machine.
/// @param backend outlives all tensors on its devices. Null: those of this
///        machine.
/// @errors throws std::logic_error for the CPU.
void set_device_backend(device_kind kind, device_backend* backend);

/// Returns the backend of a kind of device. Null: there are no such devices.
device_backend* find_device_backend(device_kind kind);

/// Says why there is no CUDA device, and what would do. Empty: there is one.
std::string why_no_cuda_device();

/// Returns the backend of a device.
/// @errors throws std::logic_error that names the device if it does not exist.
device_backend& backend_of(const device& on);

/// Asks whether these devices can be used further.
/// @errors throws `device_lost` for the first one that has failed.
void check_devices(std::span<const device> devices);

/// Returns the kernels that calls of an op run for tensors of a dtype on a
/// device. The op or the device has them. For bfloat16 these are the ones for
/// float32 if there are no others. Null: there are none.
const op_kernels* kernels_on(const device& on, const op& definition,
                             dtype type);

} // namespace troupe
