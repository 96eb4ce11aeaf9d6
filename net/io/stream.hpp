#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace troupe::net {

/// A connected byte stream that never blocks: a socket, unencrypted or under
/// TLS. Used by one thread at a time.
class stream {
public:
  virtual ~stream() = default;

  enum class status {
    ok,
    /// Nothing was transferred. Wait until the descriptor is readable; TLS may
    /// need this for a write too.
    wants_read,
    /// Nothing was transferred. Wait until the descriptor is writable; TLS may
    /// need this for a read too.
    wants_write,
    closed, ///< The peer has closed or reset the connection.
    failed, ///< `problem` has the reason.
  };
  struct io_result {
    std::size_t bytes = 0;
    status state = status::ok; ///< `ok` if and only if bytes > 0.
  };

  /// Reads at most `target.size()` bytes. @pre `target` is not empty.
  virtual io_result read_some(std::span<std::byte> target) = 0;

  /// Writes `first`, then `second`, as if they were one buffer. If nothing was
  /// transferred, the next call must pass the same bytes, possibly followed by
  /// more, because TLS has already encrypted them. @pre not both are empty.
  virtual io_result write_some(std::span<const std::byte> first,
                               std::span<const std::byte> second = {}) = 0;

  /// True if decrypted bytes are available that `poll` on the descriptor does
  /// not report.
  virtual bool has_buffered() const = 0;

  /// True if the stream guarantees that bytes come from the peer unchanged
  /// (TLS).
  virtual bool is_authentic() const { return false; }

  virtual int descriptor() const = 0;
  /// Reason for people why the stream was closed or failed.
  virtual std::string problem() const = 0;

  /// Sends an orderly end if that is possible without waiting, then closes.
  /// Raises no SIGPIPE.
  virtual void close() = 0;
};

} // namespace troupe::net
