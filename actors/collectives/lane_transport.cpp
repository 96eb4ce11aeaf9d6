#include "troupe/actors/collectives/lane_transport.hpp"

#include <algorithm>
#include <stdexcept>

namespace troupe {

namespace {

using clock = std::chrono::steady_clock;

/// Bits of a packet's number that an injected fault changes.
constexpr std::uint16_t changed_bits = 0x100;

message_kind message_kind_of(collective::packet_kind x) {
  switch (x) {
    case collective::packet_kind::result:
      return message_kind::result;
    case collective::packet_kind::gather_contribution:
      return message_kind::gather_contribution;
    case collective::packet_kind::contribution:
      break;
  }
  return message_kind::contribution;
}

} // namespace

struct lane_transport::delayed_packet {
  packet_header_bytes header;
  /// Bytes to copy, or in a zero-copy buffer.
  std::span<const std::byte> bytes;
  std::vector<std::byte> copy{}; ///< Empty if the packet is zero-copy.
  bool is_zero_copy = false;
  /// True: the packet repeats one that was sent. The receiver has a use for the
  /// first copy only.
  bool is_second_copy = false;
  clock::time_point due{};

  static delayed_packet copied(const packet_header_bytes& header,
                               std::span<const std::byte> bytes) {
    delayed_packet out{header, {}, {bytes.begin(), bytes.end()}};
    out.bytes = out.copy; // valid in moved objects, too
    return out;
  }

  /// Makes the packet a second copy, with bytes of its own.
  void repeat() {
    if (is_zero_copy)
      *this = copied(header, bytes);
    is_second_copy = true;
  }

  bool post_to(net::lane& lane) const {
    return is_zero_copy ? lane.post_zero_copy(header, bytes)
                        : lane.post(header, bytes);
  }
};

struct lane_transport::lane_state {
  std::uint64_t sent = 0; ///< Packets that were sent, or dropped by a fault.
  /// Packets that were received and popped, without those that repeat another.
  std::uint64_t received = 0;
  /// Header of the front packet for the state machine. None: it is not known.
  std::optional<packet_header_bytes> front{};
  packet_header_bytes last{}; ///< Header of the last popped packet.
  bool front_repeats = false; ///< The front packet repeats the last one.
  /// Packets are missing: since when, and how many had been received then.
  /// None: none are missing.
  std::optional<std::pair<clock::time_point, std::uint64_t>> missing{};
  /// Why the lane counts as ended: a packet is lost. None: it does not.
  std::optional<net::lane::closed_state> lost{};
  std::optional<delayed_packet> delayed{}; ///< None: no packet is delayed.

  void take_front(const packet_header_bytes& arrived);
  void check_missing(std::uint64_t reported, clock::time_point now,
                     std::chrono::nanoseconds timeout);
  void set_lost(const std::string& problem) {
    lost = {net::close_reason::corrupted, problem};
  }
};

/// Checks the number of a packet that has become the front packet.
void lane_transport::lane_state::take_front(
  const packet_header_bytes& arrived) {
  auto header = collective::read(arrived);
  const auto number = std::exchange(header.number, std::uint16_t{0});
  const auto bytes = write(header);
  const auto expected = static_cast<std::uint16_t>(received);
  front_repeats = received > 0
                  && number == static_cast<std::uint16_t>(expected - 1)
                  && bytes == last;
  if (number == expected || front_repeats)
    front = bytes;
  else
    set_lost("a packet was lost: number " + std::to_string(expected)
             + " was expected, and " + std::to_string(number) + " arrived");
}

/// The lane has no packet. Those that the other process has reported may be on
/// their way. They are lost if none arrives within the timeout.
void lane_transport::lane_state::check_missing(
  std::uint64_t reported, clock::time_point now,
  std::chrono::nanoseconds timeout) {
  if (!missing || missing->second != received)
    missing = {now, received};
  else if (now - missing->first >= timeout)
    set_lost("a packet was lost: " + std::to_string(reported)
             + " were sent, and " + std::to_string(received) + " have arrived");
}

lane_transport::lane_transport(const local_placement& placement,
                               std::vector<peer_lanes> lanes,
                               std::shared_ptr<fault_injector> faults,
                               clock_function now, counts_by_process counts,
                               std::chrono::nanoseconds loss_timeout)
  : placement_{placement},
    lanes_{std::move(lanes)},
    faults_{std::move(faults)},
    now_{now ? std::move(now) : clock::now},
    counts_{std::move(counts)},
    loss_timeout_{loss_timeout},
    states_(placement.job.processes() * collective::lane_ids.size()) {
  if (!counts_.empty() && counts_.size() != lanes_.size())
    throw std::logic_error("packet counts of " + std::to_string(counts_.size())
                           + " processes, and lanes to "
                           + std::to_string(lanes_.size()));
  if (lanes_.size() != placement.job.processes())
    throw std::logic_error("lanes to " + std::to_string(lanes_.size())
                           + " processes of "
                           + std::to_string(placement.job.processes()));
  for (std::uint32_t p = 0; p < lanes_.size(); ++p)
    if (lanes_[p].size()
          != (p == placement_.process ? 0 : collective::lane_ids.size())
        || std::ranges::any_of(lanes_[p], [](auto& x) { return !x; }))
      throw std::logic_error("process " + std::to_string(placement_.process)
                             + " has " + std::to_string(lanes_[p].size())
                             + " lanes to process " + std::to_string(p));
}

lane_transport::~lane_transport() = default;

lane_transport::lane_state&
lane_transport::state_of(std::uint32_t process, collective::lane_id lane_id) {
  return states_[process * collective::lane_ids.size() + std::size_t(lane_id)];
}

const std::optional<net::lane::closed_state>&
lane_transport::closed(std::uint32_t process, collective::lane_id lane_id) {
  const auto& end = lane_of(process, lane_id).closed();
  const auto& lost = state_of(process, lane_id).lost;
  return end && end->cause == net::close_reason::protocol_error ? end
         : lost                                                 ? lost
                                                                : end;
}

// -- sending ------------------------------------------------------------------

bool lane_transport::flush() {
  bool all = true;
  for (std::uint32_t p = 0; p < lanes_.size(); ++p)
    all = flush(p) && all;
  return all;
}

bool lane_transport::flush(std::uint32_t process) {
  bool all = true;
  if (process != placement_.process)
    for (const auto lane_id : collective::lane_ids) {
      const auto& state = state_of(process, lane_id);
      const bool repeats = state.delayed && state.delayed->is_second_copy;
      const bool has_left = (repeats || !is_blocked(process, lane_id))
                            && lane_of(process, lane_id).flush();
      if (has_left && !counts_.empty() && counts_[process])
        counts_[process]->set_sent(lane_id, state.sent);
      all = all && has_left;
    }
  return all;
}

std::span<std::byte> lane_transport::reserve(std::uint32_t process,
                                             collective::lane_id lane_id) {
  return is_blocked(process, lane_id) ? std::span<std::byte>{}
                                      : lane_of(process, lane_id).reserve();
}

/// Returns the header with the number of the next packet.
packet_header_bytes
lane_transport::numbered(std::uint32_t process, collective::lane_id lane_id,
                         const packet_header_bytes& header) {
  auto out = collective::read(header);
  out.number = static_cast<std::uint16_t>(state_of(process, lane_id).sent);
  return write(out);
}

void lane_transport::send(std::uint32_t process, collective::lane_id lane_id,
                          const packet_header_bytes& header,
                          std::size_t bytes) {
  auto& lane = lane_of(process, lane_id);
  const auto sent = numbered(process, lane_id, header);
  ++state_of(process, lane_id).sent;
  const auto fault = fault_of(process, header);
  if (!fault)
    return lane.post(sent, bytes);
  // A second copy and a delayed packet need a buffer of their own.
  const auto buffer = lane.reserve();
  send_faulty(process, lane_id, *fault,
              delayed_packet::copied(sent, buffer.first(bytes)));
}

bool lane_transport::send(std::uint32_t process, collective::lane_id lane_id,
                          const packet_header_bytes& header,
                          std::span<const std::byte> bytes) {
  if (faults_ && reserve(process, lane_id).empty())
    return false;
  const auto sent = numbered(process, lane_id, header);
  if (const auto fault = fault_of(process, header))
    send_faulty(process, lane_id, *fault, delayed_packet::copied(sent, bytes));
  else if (!lane_of(process, lane_id).post(sent, bytes))
    return false;
  ++state_of(process, lane_id).sent;
  return true;
}

bool lane_transport::send_zero_copy(std::uint32_t process,
                                    collective::lane_id lane_id,
                                    const packet_header_bytes& header,
                                    std::span<const std::byte> bytes) {
  if (faults_ && reserve(process, lane_id).empty())
    return false;
  const auto sent = numbered(process, lane_id, header);
  // `flush` returns false until a delayed packet is sent, so that the caller
  // keeps the bytes.
  if (const auto fault = fault_of(process, header))
    send_faulty(process, lane_id, *fault,
                {.header = sent, .bytes = bytes, .is_zero_copy = true});
  else if (!lane_of(process, lane_id).post_zero_copy(sent, bytes))
    return false;
  ++state_of(process, lane_id).sent;
  return true;
}

/// Asks the fault injector about a packet. None: the packet has no fault.
std::optional<fault_injector::injected_fault>
lane_transport::fault_of(std::uint32_t process,
                         const packet_header_bytes& header) const {
  if (!faults_)
    return std::nullopt;
  const auto packet = collective::read(header);
  const auto fault = faults_->on_packet(
    {role_id::kind::replica, placement_.replicas().front()},
    {role_id::kind::replica, placement_.job.replicas_of(process).front()},
    message_kind_of(packet.kind), packet.generation, packet.step);
  if (fault == fault_injector::injected_fault{})
    return std::nullopt;
  return fault;
}

/// Drops, changes, duplicates or delays a packet.
void lane_transport::send_faulty(std::uint32_t process,
                                 collective::lane_id lane_id,
                                 const fault_injector::injected_fault& fault,
                                 delayed_packet&& packet) {
  if (fault.dropped)
    return;
  auto& lane = lane_of(process, lane_id);
  if (fault.corrupted) {
    auto header = collective::read(packet.header);
    header.number ^= changed_bits;
    packet.header = write(header);
  }
  // A process that has no more packets to wait for does not read its lanes. So
  // a second copy must not be the last packet of a lane: it would stay unread,
  // and its sender would wait for it. It is sent just before the next packet.
  if (fault.duplicated && packet.post_to(lane))
    packet.repeat();
  else if (fault.delay == std::chrono::nanoseconds{0} && packet.post_to(lane))
    return;
  packet.due = now_() + fault.delay;
  state_of(process, lane_id).delayed = std::move(packet);
}

/// Sends the delayed packet of a lane if its delay is over.
/// @returns true if a packet is still delayed. Later packets of the lane must
///          then wait, because a lane keeps its packets in order.
bool lane_transport::is_blocked(std::uint32_t process,
                                collective::lane_id lane_id) {
  auto& packet = state_of(process, lane_id).delayed;
  if (packet && now_() >= packet->due
      && packet->post_to(lane_of(process, lane_id)))
    packet.reset();
  return packet.has_value();
}

// -- receiving ----------------------------------------------------------------

const packet_header_bytes* lane_transport::front(std::uint32_t process,
                                                 collective::lane_id lane_id) {
  auto& state = state_of(process, lane_id);
  if (state.lost)
    return nullptr;
  // Before the lane is read: a packet that was reported may arrive in between.
  const auto* const counts = counts_.empty() ? nullptr : counts_[process].get();
  const auto reported = counts ? counts->reported(lane_id) : 0;
  auto& lane = lane_of(process, lane_id);
  const auto* const found = lane.front();
  if (!found) {
    state.front.reset();
    if (reported > state.received && !lane.closed())
      state.check_missing(reported, now_(), loss_timeout_);
    return nullptr;
  }
  if (!state.front)
    state.take_front(*found);
  return state.front ? &*state.front : nullptr;
}

void lane_transport::pop(std::uint32_t process, collective::lane_id lane_id) {
  auto& state = state_of(process, lane_id);
  if (!state.front_repeats)
    ++state.received;
  state.last = state.front.value();
  state.front.reset();
  lane_of(process, lane_id).pop();
}

} // namespace troupe
