#pragma once

#include "troupe/net/io/stream.hpp"
#include "troupe/net/lanes/lane.hpp"
#include "troupe/net/lanes/packet_layout.hpp"

#include <memory>

namespace troupe::net {

/// A lane over a byte stream, in the format of docs/wire.md. A checksum covers
/// the header of each packet; without TLS a second one covers the payload.
/// Bytes that the stream does not accept at once wait in the lane, at most one
/// packet.
/// @cost a packet of at most 16 KiB: one system call on each side.
class stream_lane final : public lane {
public:
  explicit stream_lane(std::unique_ptr<stream> connected_stream);
  ~stream_lane() override;

  std::span<std::byte> reserve() override;
  void post(const packet_header& header, std::size_t bytes) override;
  bool post(const packet_header& header,
            std::span<const std::byte> bytes) override;
  bool flush() override;

  const packet_header* front() override;
  std::size_t front_bytes() const override { return length_; }
  std::span<const std::byte> view() override { return {}; }
  bool fetch(std::span<std::byte> into) override;
  void pop() override;

  bool arm(std::vector<pollfd>& watched) override;
  void disarm() override;
  const std::optional<closed_state>& closed() override;

private:
  bool can_post();
  void on_write_stopped(stream::status write_status);
  bool parse_front();
  std::size_t next_bytes(std::span<std::byte> destination);
  std::size_t read(std::span<std::byte> destination);
  void on_stream_closed(stream::status stream_status);
  void fail(close_reason cause, const std::string& reason);
  void set_closed(close_reason cause, const std::string& reason);

  std::unique_ptr<stream> stream_;

  // Sending. The bytes [unsent_, unsent_end_) of the output buffer wait to be
  // written. The prefix of a packet (`packet_layout`) lies directly before its
  // payload.
  struct out_buffer;
  std::unique_ptr<out_buffer> output_;
  std::size_t unsent_ = 0, unsent_end_ = 0;
  short write_events_ = POLLOUT;
  /// True if the socket's send buffer was full at the last write.
  bool stream_full_ = false;
  bool write_closed_ = false; ///< True if no more bytes can be written.
  bool space_wanted_ = false;

  // Receiving. The bytes [read_begin_, read_end_) of the input buffer were read
  // ahead and are not yet used.
  struct in_buffer;
  std::unique_ptr<in_buffer> input_;
  std::size_t read_begin_ = 0, read_end_ = 0;
  short read_events_ = POLLIN;
  bool read_closed_ = false; ///< True if no more bytes can be read.

  bool has_front_ = false;
  packet_header header_{};
  std::size_t length_ = 0;
  std::size_t fetched_ = 0;
  /// True if bytes were missing in the last `fetch`.
  bool fetch_incomplete_ = false;
  /// True if all bytes of the front packet have arrived and are valid.
  bool complete_ = false;
  /// Checksum of the front packet's header and fetched bytes.
  std::uint32_t checksum_ = 0;
  /// Checksum that the sender computed for the front packet.
  std::uint32_t expected_checksum_ = 0;

  std::optional<closed_state> closed_;
  bool close_reported_ = false;
  bool armed_ = false;
};

} // namespace troupe::net
