#pragma once

#include "troupe/net/io/stream.hpp"
#include "troupe/net/lanes/lane.hpp"
#include "troupe/net/lanes/packet_layout.hpp"

#include <memory>

namespace troupe::net {

/// A lane over a stream of bytes. Each packet has checksums; over TLS only its
/// header has one, see docs/wire.md. Bytes that the stream does not accept at
/// once wait in the lane, one packet at most.
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
  void fail(const std::string& reason);
  void set_closed(close_reason cause, const std::string& reason);

  std::unique_ptr<stream> stream_;

  // Sending: [unsent_, unsent_end_) of the buffer waits. The prefix of a packet
  // that is written in place lies directly before the reserved buffer.
  struct out_buffer;
  std::unique_ptr<out_buffer> output_;
  std::size_t unsent_ = 0, unsent_end_ = 0;
  short write_events_ = POLLOUT;
  /// The stream's own buffer was full at the last write.
  bool stream_full_ = false;
  bool write_closed_ = false; ///< No more bytes can be written.
  bool space_wanted_ = false;

  // Receiving: [read_begin_, read_end_) of the buffer was read and not used.
  struct in_buffer;
  std::unique_ptr<in_buffer> input_;
  std::size_t read_begin_ = 0, read_end_ = 0;
  short read_events_ = POLLIN;
  bool read_closed_ = false; ///< No more bytes can be read.

  bool has_front_ = false;
  packet_header header_{};
  std::size_t length_ = 0;
  std::size_t fetched_ = 0;
  bool fetch_incomplete_ = false; ///< The last `fetch` lacked bytes.
  bool complete_ = false;         ///< All bytes have arrived and are valid.
  std::uint32_t checksum_ = 0;    ///< Checksum of the bytes so far.
  /// Expected checksum of the whole packet.
  std::uint32_t expected_checksum_ = 0;

  std::optional<closed_state> closed_;
  bool close_reported_ = false;
  bool armed_ = false;
};

} // namespace troupe::net
