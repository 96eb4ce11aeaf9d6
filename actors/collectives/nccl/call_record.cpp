#include "troupe/actors/collectives/nccl/call_record.hpp"

#include "troupe/strategies/spec_codec.hpp"

#include <cstring>
#include <limits>

namespace troupe {

namespace {

/// The bytes of a record. All ranks have the same byte order, because they have
/// devices of the same kind.
struct layout {
  std::uint64_t step, bytes_per_pack;
  std::uint32_t replica, sequence, bucket, timeout;
  std::uint8_t is_gather, algorithm, tensors, unused[5];
  spec_bytes spec;
};
static_assert(sizeof(layout) == sizeof(call_record_bytes));

std::string text_of(const call_record& record) {
  return (record.is_gather ? "gather " : "bucket ")
         + std::to_string(record.bucket) + " of " + to_string(record.spec) + " "
         + to_string(record.options);
}

} // namespace

call_record_bytes write(const call_record& record) {
  const layout out{.step = record.step,
                   .bytes_per_pack = record.options.bytes_per_pack,
                   .replica = record.replica,
                   .sequence = record.sequence,
                   .bucket = record.bucket,
                   .timeout = record.options.timeout,
                   .is_gather = record.is_gather,
                   .algorithm =
                     static_cast<std::uint8_t>(record.options.algorithm),
                   .tensors = record.options.tensors,
                   .unused = {},
                   .spec = encode_spec(record.spec)};
  call_record_bytes bytes;
  std::memcpy(bytes.data(), &out, sizeof(out));
  return bytes;
}

bool read(const call_record_bytes& bytes, call_record& record) {
  layout in;
  std::memcpy(&in, bytes.data(), sizeof(in));
  record = {.replica = in.replica,
            .step = in.step,
            .sequence = in.sequence,
            .is_gather = in.is_gather != 0,
            .bucket = in.bucket,
            .options = {collective_options::algorithm_kind{in.algorithm},
                        in.timeout, in.bytes_per_pack, in.tensors}};
  const auto max_bytes = record.is_gather
                           ? collective::max_gather_bytes
                           : std::numeric_limits<std::size_t>::max();
  return decode_spec(in.spec, max_bytes, record.spec);
}

std::string describe_difference(const call_record& a, const call_record& b) {
  const bool same_collective = a.step == b.step && a.sequence == b.sequence
                               && a.is_gather == b.is_gather
                               && a.bucket == b.bucket;
  const bool same_options = a.options == b.options;
  if (same_collective && same_options && (a.is_gather || a.spec == b.spec))
    return "";
  const auto call = [](const call_record& record) {
    return "replica " + std::to_string(record.replica) + " called "
           + text_of(record) + " as operation "
           + std::to_string(record.sequence) + " of step "
           + std::to_string(record.step);
  };
  return call(a) + ", " + call(b)
         + (!same_collective ? ": the replicas do not call the same collectives"
            : !same_options  ? ": the replicas do not pass the same options"
                             : ": the replicas do not pass the same spec");
}

} // namespace troupe
