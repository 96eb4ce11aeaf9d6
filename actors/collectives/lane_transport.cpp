#include "troupe/actors/collectives/lane_transport.hpp"

#include <algorithm>
#include <stdexcept>

namespace troupe {

namespace {

using clock = std::chrono::steady_clock;

/// Index of the header byte that an injected fault changes. It is a byte of the
/// element count.
constexpr std::size_t changed_byte = 20;

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
  collective::packet_header_bytes header;
  std::span<const std::byte> bytes; ///< Of `copy`, or of a zero-copy buffer.
  std::vector<std::byte> copy{};    ///< Empty if the packet is zero-copy.
  bool is_zero_copy = false;
  /// True: the packet repeats one that was sent. The receiver has a use for the
  /// first copy only.
  bool is_second_copy = false;
  clock::time_point due{};

  static delayed_packet copied(const collective::packet_header_bytes& header,
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

lane_transport::lane_transport(const local_placement& placement,
                               std::vector<peer_lanes> lanes,
                               std::shared_ptr<fault_injector> faults,
                               clock_function now)
  : placement_{placement},
    lanes_{std::move(lanes)},
    faults_{std::move(faults)},
    now_{now ? std::move(now) : clock::now},
    delayed_(placement.job.processes() * collective::lane_ids.size()) {
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
      const auto& packet = delayed(process, lane_id);
      const bool repeats = packet && packet->is_second_copy;
      all = (repeats || !is_blocked(process, lane_id))
            && lane_of(process, lane_id).flush() && all;
    }
  return all;
}

std::span<std::byte> lane_transport::reserve(std::uint32_t process,
                                             collective::lane_id lane_id) {
  return is_blocked(process, lane_id) ? std::span<std::byte>{}
                                      : lane_of(process, lane_id).reserve();
}

void lane_transport::send(std::uint32_t process, collective::lane_id lane_id,
                          const collective::packet_header_bytes& header,
                          std::size_t bytes) {
  auto& lane = lane_of(process, lane_id);
  const auto fault = fault_of(process, header);
  if (!fault)
    return lane.post(header, bytes);
  // A second copy and a delayed packet need a buffer of their own.
  const auto buffer = lane.reserve();
  send_faulty(process, lane_id, *fault,
              delayed_packet::copied(header, buffer.first(bytes)));
}

bool lane_transport::send(std::uint32_t process, collective::lane_id lane_id,
                          const collective::packet_header_bytes& header,
                          std::span<const std::byte> bytes) {
  if (!faults_)
    return lane_of(process, lane_id).post(header, bytes);
  if (reserve(process, lane_id).empty())
    return false;
  if (const auto fault = fault_of(process, header))
    send_faulty(process, lane_id, *fault,
                delayed_packet::copied(header, bytes));
  else
    lane_of(process, lane_id).post(header, bytes);
  return true;
}

bool lane_transport::send_zero_copy(
  std::uint32_t process, collective::lane_id lane_id,
  const collective::packet_header_bytes& header,
  std::span<const std::byte> bytes) {
  if (!faults_)
    return lane_of(process, lane_id).post_zero_copy(header, bytes);
  if (reserve(process, lane_id).empty())
    return false;
  if (const auto fault = fault_of(process, header)) {
    // `flush` returns false until the delayed packet is sent, so that the
    // caller keeps the bytes.
    send_faulty(process, lane_id, *fault,
                {.header = header, .bytes = bytes, .is_zero_copy = true});
    return true;
  }
  return lane_of(process, lane_id).post_zero_copy(header, bytes);
}

/// Asks the fault injector about a packet. None: the packet has no fault.
std::optional<fault_injector::injected_fault>
lane_transport::fault_of(std::uint32_t process,
                         const collective::packet_header_bytes& header) const {
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
  if (fault.corrupted)
    packet.header[changed_byte] ^= std::byte{1};
  // A process that has no more packets to wait for does not read its lanes. So
  // a second copy must not be the last packet of a lane: it would stay unread,
  // and its sender would wait for it. It is sent just before the next packet.
  if (fault.duplicated && packet.post_to(lane))
    packet.repeat();
  else if (fault.delay == std::chrono::nanoseconds{0} && packet.post_to(lane))
    return;
  packet.due = now_() + fault.delay;
  delayed(process, lane_id) = std::move(packet);
}

/// Sends the delayed packet of a lane if its delay is over.
/// @returns true if a packet is still delayed. Later packets of the lane must
///          then wait, because a lane keeps its packets in order.
bool lane_transport::is_blocked(std::uint32_t process,
                                collective::lane_id lane_id) {
  auto& packet = delayed(process, lane_id);
  if (packet && now_() >= packet->due
      && packet->post_to(lane_of(process, lane_id)))
    packet.reset();
  return packet.has_value();
}

std::optional<lane_transport::delayed_packet>&
lane_transport::delayed(std::uint32_t process, collective::lane_id lane_id) {
  return delayed_[process * collective::lane_ids.size() + std::size_t(lane_id)];
}

} // namespace troupe
