// Fuzzes net/codec/frame_decoder with a byte stream in arbitrary pieces.
#include "troupe/net/codec/crc32c.hpp"
#include "troupe/net/codec/frame_layout.hpp"
#include "troupe/tests/fuzz/fuzz.hpp"
#include "troupe/tests/net/codec/frames.hpp"

using namespace troupe::net;
using troupe::net::testing::decode_all;
using troupe::net::testing::some_frame;

namespace troupe::fuzz {

namespace {

/// Writes correct checksums to the frames of a stream, as an attacker can.
void seal(bytes& x) {
  for (std::size_t offset = 0; x.size() - offset >= header_size;) {
    const auto head = std::span{x}.subspan(offset, header_size);
    const auto sum = crc32c(head.first(layout::header_sum));
    store_le(&head[layout::header_sum], sum);
    const std::size_t length = load_le<std::uint32_t>(&head[layout::length]);
    offset += header_size;
    const auto payload =
      std::span{x}.subspan(offset, std::min(length, x.size() - offset));
    store_le(&head[layout::sum], crc32c(payload, sum));
    offset += payload.size();
  }
}

/// Decodes a stream in one piece, and checks how much memory the decoder
/// allocates.
void check_memory(view stream, const frame_limits& limits) {
  std::size_t consumed = 0;
  frame_decoder decoder{limits};
  for (auto left = stream; !left.empty();) {
    const auto before = left.size();
    const auto peak = memory_of([&] {
      auto x = decoder.next(left);
      if (std::holds_alternative<decode_error>(x))
        left = {};
    });
    consumed += before - left.size();
    require(peak <= 2 * consumed + 1024, "memory follows the bytes that came");
    require(decoder.allocated_bytes() <= 2 * consumed,
            "kept memory follows the bytes that came");
  }
}

} // namespace

void try_one(view input) {
  choices source{input};
  const auto sealed = source.flip();
  const frame_limits limits{.control =
                              std::uint64_t{1} + source.number<std::uint16_t>(),
                            .bulk = std::uint64_t{1} << source.below(33)};
  const std::size_t piece = 1 + source.number<std::uint8_t>();
  const auto rest = source.rest();
  bytes stream{rest.begin(), rest.end()};
  if (sealed)
    seal(stream);

  const auto whole = decode_all(stream, stream.size() + 1, limits);
  for (const auto size : {piece, std::size_t{1}}) {
    const auto cut = decode_all(stream, size, limits);
    require(cut.frames == whole.frames && cut.error == whole.error,
            "a stream in any pieces holds the same");
  }
  bytes again;
  for (const auto& x : whole.frames) {
    require(x.payload.size() <= limits.max_payload(x.priority),
            "frames are within the limits");
    append(again, to_bytes(x));
  }
  require(again.size() <= stream.size()
            && std::equal(again.begin(), again.end(), stream.begin()),
          "frames have the bytes that they were read from");
  require(whole.error || again.size() == stream.size(), "nothing is left over");
  require(!whole.error
            || (whole.error->offset >= again.size()
                && whole.error->offset <= stream.size()),
          "an error is located after the last frame");
  check_memory(stream, limits);
}

std::vector<bytes> seeds() {
  std::vector<bytes> inputs;
  const auto options = joined({1, 0xff, 0xff, 20, 7});
  for (const std::size_t size : {0, 1, 40, 300})
    inputs.push_back(joined({}, options, to_bytes(some_frame(size, 3)),
                            to_bytes(some_frame(2 * size, 4))));
  auto wrong = inputs.back();
  wrong.front() = std::byte{0};
  wrong.back() ^= std::byte{1};
  inputs.push_back(wrong);
  return inputs;
}

} // namespace troupe::fuzz
