#include "troupe/strategies/collective/sender.hpp"

#include "troupe/strategies/collective/reduce_kernels.hpp"

namespace troupe::collective {

namespace {

/// Adds some contributions in the memory of the transport.
/// @returns false if the queue is full.
bool send_sum(packet_transport& transport, std::uint32_t peer, lane_id lane,
              const packet_header& header, const operation& op,
              std::span<const tensor> summands) {
  const auto buffer = transport.reserve(peer, lane);
  if (buffer.empty())
    return false;
  const chunk_range range{op.spec.type, op.chunk_offset(header.chunk),
                          op.chunk_bytes(header.chunk)};
  sum_inputs(summands, range, buffer.data());
  transport.send(peer, lane, write(header), range.bytes);
  return true;
}

/// @returns false if the queue is full.
bool send_payload(packet_transport& transport, std::uint32_t peer, lane_id lane,
                  const packet_header& header, const operation& op,
                  const payload& data) {
  switch (data.how) {
    case payload::kind::zero_copy:
      return transport.send_zero_copy(peer, lane, write(header), data.bytes);
    case payload::kind::sum:
      return send_sum(transport, peer, lane, header, op, data.summands);
    case payload::kind::spec: {
      const auto spec = write(data.summands[0].spec());
      return transport.send(peer, lane, write(header),
                            std::span<const std::byte>{spec});
    }
    case payload::kind::copy:
      break;
  }
  return transport.send(peer, lane, write(header), data.bytes);
}

} // namespace

bool sender::send(packet_transport& transport, std::uint32_t peer,
                  lane_id lane) {
  const queue_id queue{lane, rank_, peer};
  auto& next = positions_.sent(peer, lane);
  if (!order_.find(next, queue))
    return false;
  auto& op = log_[next.operation_number];
  const auto& schedule = order_.schedule_of(op);
  const auto header = order_.header_of(next, queue);
  const auto data = schedule.payload_of(op, next, header, queue, positions_);
  if (!data || !send_payload(transport, peer, lane, header, op, *data))
    return false;
  if (data->how == payload::kind::zero_copy)
    log_.note_zero_copy();
  if (schedule.advance(op, next, queue))
    log_.complete_item(op);
  return true;
}

} // namespace troupe::collective
