#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace troupe::net {

/// A connected stream of bytes that never blocks: a socket, in the clear or
/// under TLS. For one thread at a time.
class stream {
public:
  virtual ~stream() = default;

  enum class status {
    ok,
    wants_read,  ///< Nothing moved: wait until the descriptor can be read ...
    wants_write, ///< ... or written; TLS may want either in both directions.
    closed,      ///< The peer has ended it, orderly or by a reset.
    failed,      ///< `problem` says why.
  };
  struct moved {
    std::size_t bytes = 0;
    status how = status::ok; ///< `ok` if and only if bytes > 0.
  };

  /// Reads at most `to.size()` bytes. @pre `to` is not empty.
  virtual moved read_some(std::span<std::byte> to) = 0;

  /// Writes from the first, then from the second, as if they were one. When
  /// nothing moved, the next call must bring the same bytes, or more behind
  /// them (TLS has sealed them by then). @pre not both are empty.
  virtual moved write_some(std::span<const std::byte> first,
                           std::span<const std::byte> second = {}) = 0;

  /// Whether bytes lie ready that `poll` on the descriptor does not tell of.
  virtual bool has_buffered() const = 0;

  /// Whether what is read is what the peer wrote, or the stream fails: TLS.
  virtual bool is_authentic() const { return false; }

  virtual int descriptor() const = 0;
  virtual std::string problem() const = 0;

  /// Says goodbye if it can at once, then closes. No SIGPIPE.
  virtual void close() = 0;
};

} // namespace troupe::net
