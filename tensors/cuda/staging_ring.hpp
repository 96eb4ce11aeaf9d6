#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace troupe::cuda {

/// Copies memory of the host to a device through pinned memory, so the source
/// may change as soon as a call has returned. CUDA promises this for no
/// asynchronous copy of its own: some devices read memory that is not pinned
/// when the copy takes place. The pinned memory has a fixed size. Its pieces
/// are filled in turn, each one after the device has read it. Thread-safe.
class staging_ring {
public:
  /// A stream of a device. The ring makes one call at a time.
  class stream {
  public:
    virtual ~stream() = default;

    /// Starts a copy to the device.
    virtual void start_copy(std::byte* target, const std::byte* pinned,
                            std::size_t bytes) = 0;
    /// Notes that the copies so far include all those from a piece.
    virtual void record(std::size_t piece) = 0;
    /// Waits for the copies before the last `record` of a piece.
    virtual void wait(std::size_t piece) = 0;
  };

  /// @param memory pinned, `pieces * piece_bytes` bytes.
  /// @param pieces at least 2.
  staging_ring(std::unique_ptr<stream> to, std::byte* memory,
               std::size_t pieces, std::size_t piece_bytes)
    : to_{std::move(to)},
      memory_{memory},
      piece_bytes_{piece_bytes},
      is_recorded_(pieces, false) {}
  staging_ring(const staging_ring&) = delete;
  staging_ring& operator=(const staging_ring&) = delete;

  /// Gives copies of `bytes` bytes to the stream. Waits for earlier copies if
  /// they fill the ring.
  /// @errors what the stream throws.
  void copy(std::byte* target, const std::byte* source, std::size_t bytes);

private:
  void begin_next_piece();

  const std::unique_ptr<stream> to_;
  std::byte* const memory_;
  const std::size_t piece_bytes_;
  std::mutex lock_;
  std::vector<bool> is_recorded_; ///< By piece.
  std::size_t piece_ = 0;         ///< Index of the piece that is being filled.
  std::size_t filled_ = 0;        ///< Bytes of the piece.
};

} // namespace troupe::cuda
