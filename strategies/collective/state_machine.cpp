#include "troupe/strategies/collective/state_machine.hpp"

#include <stdexcept>

namespace troupe::collective {

namespace {

local_placement checked(local_placement placed) {
  for (std::uint32_t p = 0; p < placed.job.processes(); ++p)
    if (placed.job.replicas_of(p).empty())
      throw std::logic_error("process " + std::to_string(p)
                             + " of a collective has no replica");
  return placed;
}

} // namespace

state_machine::state_machine(local_placement placed)
  : placement_{checked(std::move(placed))},
    log_{placement_},
    positions_{placement_.job.processes(), placement_.process},
    order_{placement_, log_},
    sender_{placement_.process, log_, order_, positions_},
    receiver_{placement_, log_, order_, positions_} {}

// -- calls of the local replicas ----------------------------------------------

void state_machine::begin_generation(std::uint32_t replica,
                                     std::uint64_t generation) {
  if (generation > log_.generation()) {
    receiver_.start_generation();
    log_.start_generation(generation);
    positions_.reset();
  }
  log_.join_generation(replica, generation);
}

void state_machine::begin_step(std::uint32_t replica, std::uint64_t step) {
  log_.begin_step(replica, step);
  log_.trim(positions_.first_needed());
}

void state_machine::end_step(std::uint32_t replica) {
  if (is_current(replica) && !is_drained(replica))
    log_.abort();
  log_.end_step(replica);
  log_.trim(positions_.first_needed());
}

void state_machine::contribute(std::uint32_t replica, std::uint32_t bucket,
                               const tensor& input,
                               const collective_options& options,
                               output_placement result_placement) {
  if (!is_current(replica))
    return;
  log_.contribute(replica, bucket, input, options, result_placement);
  start_ready();
}

void state_machine::gather(std::uint32_t replica, std::uint32_t bucket,
                           const tensor& input,
                           const collective_options& options) {
  if (!is_current(replica))
    return;
  log_.gather(replica, bucket, input, options);
  start_ready();
}

/// Starts the operations that all local replicas have called. If the allocation
/// of a result throws, a later call can start the operation.
void state_machine::start_ready() {
  while (auto* op = log_.next_ready()) {
    order_.schedule_of(*op).prepare(*op);
    log_.mark_started();
  }
}

// -- progress -----------------------------------------------------------------

bool state_machine::progress(packet_transport& transport) {
  if (log_.is_aborted() || error() || log_.generation() == 0)
    return false;
  const auto processes = placement_.job.processes();
  bool moved = false;
  for (std::uint32_t i = 1; i < processes; ++i) {
    const auto p = (placement_.process + i) % processes;
    moved |= receiver_.receive(transport, p, lane_id::results);
    moved |= receiver_.receive(transport, p, lane_id::contributions);
  }
  moved |= receiver_.add_chunk(transport);
  for (std::uint32_t i = 1; i < processes; ++i) {
    const auto p = (placement_.process + i) % processes;
    moved |= sender_.send(transport, p, lane_id::results);
    moved |= sender_.send(transport, p, lane_id::contributions);
  }
  return moved && !error();
}

// -- results ------------------------------------------------------------------

bool state_machine::is_complete(std::uint32_t replica) const {
  return log_.first_incomplete() >= log_.calls_of(replica);
}

bool state_machine::is_drained(std::uint32_t replica) const {
  return is_complete(replica)
         && positions_.first_to_send() >= log_.calls_of(replica);
}

std::optional<std::uint32_t>
state_machine::first_incomplete(std::uint32_t replica) const {
  if (is_complete(replica) || !is_current(replica))
    return std::nullopt;
  return log_[log_.first_incomplete()].bucket;
}

std::optional<missing_inputs> state_machine::missing(std::uint64_t step) const {
  return find_missing(step, placement_, log_, order_, positions_);
}

} // namespace troupe::collective
