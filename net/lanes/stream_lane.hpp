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
  explicit stream_lane(std::unique_ptr<stream> over);
  ~stream_lane() override;

  std::span<std::byte> room() override;
  void post(const parcel_head& head, std::size_t bytes) override;
  bool post(const parcel_head& head, std::span<const std::byte> bytes) override;
  bool flush() override;

  const parcel_head* front() override;
  std::size_t front_bytes() const override { return length_; }
  std::span<const std::byte> view() override { return {}; }
  bool fetch(std::span<std::byte> into) override;
  void pop() override;

  bool before_sleep(std::vector<pollfd>& watched) override;
  void after_sleep() override;
  const std::optional<end>& ended() override;

private:
  bool can_post();
  void write_stopped(stream::status how);
  bool parse_front();
  std::size_t next_bytes(std::span<std::byte> to);
  std::size_t read(std::span<std::byte> to);
  void stopped(stream::status how);
  void break_off(const std::string& why);
  void stop(ending how, const std::string& why);

  std::unique_ptr<stream> over_;

  // Sending: [unsent_, unsent_end_) of the buffer waits. The prefix of a packet
  // that is written in place lies directly before the reserved buffer.
  struct out_buffer;
  std::unique_ptr<out_buffer> out_;
  std::size_t unsent_ = 0, unsent_end_ = 0;
  short write_news_ = POLLOUT;
  /// The stream's own buffer was full at the last write.
  bool full_ = false;
  bool write_over_ = false; ///< No more bytes can be written.
  bool room_missed_ = false;

  // Receiving: [read_begin_, read_end_) of the buffer was read and not used.
  struct in_buffer;
  std::unique_ptr<in_buffer> in_;
  std::size_t ahead_ = 0, ahead_end_ = 0;
  short read_news_ = POLLIN;
  bool read_over_ = false; ///< No more bytes can be read.

  bool has_front_ = false;
  parcel_head head_{};
  std::size_t length_ = 0;
  std::size_t fetched_ = 0;
  bool fetching_ = false;    ///< The last `fetch` lacked bytes.
  bool complete_ = false;    ///< All bytes are there, and intact.
  std::uint32_t sum_ = 0;    ///< Checksum of the bytes so far.
  std::uint32_t wanted_ = 0; ///< Expected checksum of the whole packet.

  std::optional<end> end_;
  bool told_ = false;
  bool asleep_ = false;
};

} // namespace troupe::net
