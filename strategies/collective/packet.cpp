#include "troupe/strategies/collective/packet.hpp"

#include "troupe/strategies/tree/fold.hpp"

#include <algorithm>

namespace troupe::collective {

namespace {

constexpr std::size_t kib = 1024;

/// Maximum number of bytes, summed over all peers, that a process sends for an
/// `all_to_all` bucket.
constexpr std::size_t max_all_to_all_bytes = 32 * kib;
/// Maximum size, in bytes, of a bucket that is sent as one chunk.
constexpr std::size_t max_unchunked_bytes = 32 * kib;
/// Number of chunks of a large bucket that each process should add. With
/// several chunks, copying, adding and sending overlap.
constexpr std::size_t chunks_per_process = 4;
constexpr std::size_t min_chunk_bytes = 16 * kib;
constexpr std::size_t cache_line_bytes = 64;

void add_subtrees(std::uint32_t a, std::uint32_t b, const placement& placed,
                  std::uint32_t process, std::vector<replica_range>& subtrees) {
  const auto& ids = placed.replicas_of(process);
  const auto hosted = static_cast<std::uint32_t>(
    std::ranges::lower_bound(ids, b) - std::ranges::lower_bound(ids, a));
  if (hosted == b - a)
    subtrees.push_back({a, b});
  if (hosted == 0 || hosted == b - a)
    return;
  const auto cut = a + static_cast<std::uint32_t>(tree::split(b - a));
  add_subtrees(a, cut, placed, process, subtrees);
  add_subtrees(cut, b, placed, process, subtrees);
}

} // namespace

std::vector<replica_range> subtrees_of(const placement& placed,
                                       std::uint32_t process) {
  std::vector<replica_range> out;
  add_subtrees(0, placed.replicas(), placed, process, out);
  return out;
}

chunking chunking_of(std::size_t elements, dtype type, std::uint32_t processes,
                     collective_options::algorithm_kind algorithm) {
  const auto bytes = elements * size_of(type);
  if (bytes == 0)
    return {};
  if (algorithm == collective_options::algorithm_kind::tree && processes > 1
      && bytes <= max_all_to_all_bytes / (processes - 1))
    return {elements, 1, true};
  if (bytes <= max_unchunked_bytes)
    return {elements, 1, false};
  const auto fair = bytes / (chunks_per_process * processes);
  const auto each =
    (std::clamp(fair, min_chunk_bytes, max_packet_bytes) + cache_line_bytes - 1)
    / cache_line_bytes * cache_line_bytes;
  return {each / size_of(type),
          static_cast<std::uint32_t>((bytes + each - 1) / each), false};
}

// -- headers ------------------------------------------------------------------

packet_header_bytes write(const packet_header& header) {
  return encode_header(header);
}

packet_header read(const packet_header_bytes& bytes) {
  return decode_header<packet_header>(bytes);
}

gather_spec write(const tensor_spec& spec) {
  return encode_spec(spec);
}

bool read(const gather_spec& bytes, tensor_spec& spec) {
  return decode_spec(bytes, max_gather_bytes, spec);
}

// -- texts --------------------------------------------------------------------

namespace {

std::string elements_of(const packet_header& header) {
  return header.kind == packet_kind::gather_contribution
           ? "gather " + std::to_string(header.bucket)
           : "bucket " + std::to_string(header.bucket) + " of "
               + std::to_string(header.elements) + " elements";
}

} // namespace

std::string describe(const packet_header& header) {
  const auto piece =
    header.kind == packet_kind::gather_contribution ? "piece " : "chunk ";
  const auto of = header.kind == packet_kind::result ? "the result of "
                  : header.kind == packet_kind::contribution
                    ? "a contribution to "
                    : "";
  return of + std::string{piece} + std::to_string(header.chunk) + " of "
         + elements_of(header) + " of replicas [" + std::to_string(header.begin)
         + ", " + std::to_string(header.end) + ")";
}

std::string describe_mismatch(const packet_header& received,
                              const packet_header& expected) {
  const std::string sent = "it sent ";
  const auto step = " was expected in step " + std::to_string(expected.step);
  const std::string differ = "the replicas do not call the same collectives";
  const auto with_options = [](const packet_header& header) {
    return elements_of(header) + " " + to_string(header.options());
  };
  if (received.step != expected.step || received.sequence != expected.sequence)
    return sent + elements_of(received) + " of step "
           + std::to_string(received.step) + " where " + elements_of(expected)
           + step + ": a packet was lost, or " + differ;
  if (received.options() != expected.options())
    return sent + with_options(received) + " where " + with_options(expected)
           + step + ": the replicas do not pass the same options";
  return sent + describe(received) + " where " + describe(expected) + step
         + ": a packet was lost";
}

} // namespace troupe::collective
