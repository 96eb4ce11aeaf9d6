#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace troupe::net {

/// A connected byte stream whose functions never block: a socket with or
/// without TLS. Only one thread at a time may use it.
class stream {
public:
  virtual ~stream() = default;

  enum class status {
    ok,
    /// Nothing was transferred. The caller waits until the descriptor is
    /// readable; a write over TLS may need this too.
    wants_read,
    /// Nothing was transferred. The caller waits until the descriptor is
    /// writable; a read over TLS may need this too.
    wants_write,
    closed, ///< The peer has closed or reset the connection.
    failed, ///< An error ended the stream; `problem` has the reason.
  };
  struct io_result {
    std::size_t bytes = 0;
    status state = status::ok; ///< `ok` if and only if bytes > 0.
  };

  /// Reads at most `target.size()` bytes. @pre `target` is not empty.
  virtual io_result read_some(std::span<std::byte> target) = 0;

  /// Writes `first`, then `second`, as if they were one buffer. If it
  /// transferred nothing, the next call must pass the same bytes, because TLS
  /// has already encrypted them. More bytes may follow them. @pre `first` or
  /// `second` is not empty.
  virtual io_result write_some(std::span<const std::byte> first,
                               std::span<const std::byte> second = {}) = 0;

  /// True if bytes can be read although `poll` does not report the descriptor,
  /// because TLS has read them ahead.
  virtual bool has_buffered() const = 0;

  /// True if the stream ensures that received bytes are those that the peer
  /// sent. Only TLS does.
  virtual bool is_authentic() const { return false; }

  virtual int descriptor() const = 0;
  /// Returns a text that says why the stream was closed or failed.
  virtual std::string problem() const = 0;

  /// Closes the stream. Over TLS it first sends a close notification if that is
  /// possible without waiting. Raises no SIGPIPE.
  virtual void close() = 0;
};

} // namespace troupe::net
