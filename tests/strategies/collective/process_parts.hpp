#pragma once

#include "troupe/strategies/collective/receiver.hpp"
#include "troupe/strategies/collective/sender.hpp"
#include "troupe/tests/strategies/collective/packet_queues.hpp"

namespace troupe::collective::testing {

/// The parts of the state machine of one process, in generation 1 and step 3.
struct process_parts {
  process_parts(const placement& job, std::uint32_t rank)
    : placed{job, rank},
      log{placed},
      positions{job.processes(), rank},
      order{placed, log},
      out{rank, log, order, positions},
      in{placed, log, order, positions} {
    log.start_generation(1);
    for (const auto r : placed.replicas()) {
      log.join_generation(r, 1);
      log.begin_step(r, 3);
    }
  }
  process_parts(const process_parts&) = delete;

  void start_ready() {
    while (auto* op = log.next_ready()) {
      order.schedule_of(*op).prepare(*op);
      log.mark_started();
    }
  }
  /// Lets all local replicas contribute to a sum, and starts it.
  operation& sum(std::uint32_t bucket, const tensors& inputs,
                 const collective_options& options = {}) {
    for (const auto r : placed.replicas())
      log.contribute(r, bucket, inputs[r], options, output_placement::separate);
    start_ready();
    return log[log.end() - 1];
  }
  /// Lets all local replicas contribute to a gather, and starts it.
  operation& gather(std::uint32_t number, const tensors& inputs) {
    for (const auto r : placed.replicas())
      log.gather(r, number, inputs[r], {});
    start_ready();
    return log[log.end() - 1];
  }
  /// Returns the headers of all packets in a queue from `start` on.
  std::vector<packet_header> headers_of(const queue_id& queue) {
    std::vector<packet_header> headers;
    for (cursor next; order.find(next, queue);) {
      headers.push_back(order.header_of(next, queue));
      const auto& op = log[next.operation_number];
      order.schedule_of(op).advance(op, next, queue);
    }
    return headers;
  }

  local_placement placed;
  operation_log log;
  queue_positions positions;
  packet_order order;
  sender out;
  receiver in;
};

/// Returns the chunks of some headers.
inline std::vector<std::uint32_t>
chunks_of(const std::vector<packet_header>& headers) {
  std::vector<std::uint32_t> out;
  for (const auto& header : headers)
    out.push_back(header.chunk);
  return out;
}

} // namespace troupe::collective::testing
