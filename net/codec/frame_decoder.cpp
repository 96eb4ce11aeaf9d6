#include "troupe/net/codec/frame_decoder.hpp"

#include "troupe/net/codec/crc32c.hpp"
#include "troupe/net/codec/frame_layout.hpp"

#include <algorithm>
#include <utility>

namespace troupe::net {

namespace {

constexpr std::size_t start_size = layout::version + 1;

unsigned number(std::byte x) {
  return std::to_integer<unsigned>(x);
}

} // namespace

decode_error frame_decoder::error_at(std::size_t offset,
                                     std::string reason) const {
  return {begin_ + offset, std::move(reason)};
}

frame_decoder::result frame_decoder::fail(decode_error&& x) {
  frame_ = {};
  error_ = std::move(x);
  return *error_;
}

/// Checks the first five bytes, so that another protocol or version is detected
/// early.
std::optional<decode_error> frame_decoder::check_start() const {
  if (!std::equal(frame_magic.begin(), frame_magic.end(), header_.begin()))
    return error_at(layout::magic, "not the start of a frame");
  if (const auto v = number(header_[layout::version]); v != wire_version)
    return error_at(layout::version,
                    "version " + std::to_string(v) + ", but version "
                      + std::to_string(wire_version) + " is expected");
  return {};
}

std::optional<decode_error> frame_decoder::check_header() const {
  const auto sum = crc32c(std::span{header_}.first(layout::header_sum));
  if (sum != load_le<std::uint32_t>(&header_[layout::header_sum]))
    return error_at(layout::header_sum, "the header checksum does not match");
  const auto kind = number(header_[layout::kind]);
  if (kind < number(std::byte(frame_kind::oneway))
      || kind > number(std::byte(frame_kind::terminated)))
    return error_at(layout::kind, "unknown kind " + std::to_string(kind));
  if (const auto flags = number(header_[layout::flags]); flags != 0)
    return error_at(layout::flags, "unknown flags " + std::to_string(flags));
  const auto priority = number(header_[layout::priority]);
  if (priority > number(std::byte(priority::bulk)))
    return error_at(layout::priority,
                    "unknown priority " + std::to_string(priority));
  const auto length = load_le<std::uint32_t>(&header_[layout::length]);
  const auto most = limits_.max_payload(net::priority(priority));
  if (length > most)
    return error_at(layout::length, "a payload of " + std::to_string(length)
                                      + " bytes, but " + std::to_string(most)
                                      + " is the limit");
  return {};
}

void frame_decoder::read_header() {
  frame_.kind = frame_kind(header_[layout::kind]);
  frame_.priority = priority(header_[layout::priority]);
  frame_.view_id = load_le<std::uint64_t>(&header_[layout::view_id]);
  frame_.tag = load_le<std::uint64_t>(&header_[layout::tag]);
  frame_.channel = load_le<std::uint32_t>(&header_[layout::channel]);
  length_ = load_le<std::uint32_t>(&header_[layout::length]);
}

void frame_decoder::take_payload(std::span<const std::byte>& bytes) {
  auto& payload = frame_.payload;
  const auto count =
    std::min<std::uint64_t>(bytes.size(), length_ - payload.size());
  const auto wanted = payload.size() + count;
  if (wanted > payload.capacity())
    payload.reserve(std::min<std::uint64_t>(
      length_, std::max(wanted, 2 * payload.capacity())));
  payload.insert(payload.end(), bytes.begin(), bytes.begin() + count);
  bytes = bytes.subspan(count);
}

frame_decoder::result frame_decoder::next(std::span<const std::byte>& bytes) {
  if (error_)
    return *error_;
  if (filled_ < header_size) {
    const auto count = std::min(bytes.size(), header_size - filled_);
    std::copy_n(bytes.begin(), count, header_.begin() + filled_);
    bytes = bytes.subspan(count);
    filled_ += count;
    if (filled_ >= start_size)
      if (auto x = check_start())
        return fail(*std::move(x));
    if (filled_ < header_size)
      return more{};
    if (auto x = check_header())
      return fail(*std::move(x));
    read_header();
  }
  take_payload(bytes);
  if (frame_.payload.size() < length_)
    return more{};
  const auto sum = crc32c(frame_.payload,
                          load_le<std::uint32_t>(&header_[layout::header_sum]));
  if (sum != load_le<std::uint32_t>(&header_[layout::sum]))
    return fail(error_at(layout::sum, "the payload checksum does not match"));
  begin_ += header_size + length_;
  filled_ = 0;
  return std::exchange(frame_, {});
}

std::optional<decode_error> frame_decoder::finish() const {
  if (error_)
    return error_;
  if (filled_ == 0)
    return {};
  if (filled_ < header_size)
    return error_at(filled_, "the stream ends within a header");
  return error_at(header_size + frame_.payload.size(),
                  "the stream ends "
                    + std::to_string(length_ - frame_.payload.size())
                    + " bytes before the end of its frame");
}

} // namespace troupe::net
