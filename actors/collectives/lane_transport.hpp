#pragma once

#include "troupe/actors/collectives/packet_counts.hpp"
#include "troupe/actors/core/fault_injector.hpp"
#include "troupe/net/lanes/lane.hpp"
#include "troupe/strategies/collective/packet.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace troupe {

/// Lanes between this process and another one, by number. Collectives use the
/// lanes whose numbers are those of `collective::lane_id`.
using peer_lanes = std::vector<std::unique_ptr<net::lane>>;

/// Returns the current time. Null: the system's steady clock is used.
using clock_function = std::function<std::chrono::steady_clock::time_point()>;

/// The packet counts of this process and another one, by number of the process.
using counts_by_process = std::vector<std::shared_ptr<packet_counts>>;

/// Sends the packets of collectives over lanes, numbers them, and injects
/// faults. If a packet of a lane is missing, no later one is received from it,
/// and `closed` says that the lane has ended. To the fault injector a packet is
/// a message from the lowest replica of the sending process to the lowest
/// replica of the receiving process. The second copy of a packet is sent just
/// before the next packet of its lane.
class lane_transport final : public collective::packet_transport {
public:
  /// @param lanes  by process: one lane for each `collective::lane_id`. Empty
  ///               for this process.
  /// @param faults fault injector. Null: none.
  /// @param counts empty, or one for each other process. Without it, a lost
  ///               packet is noticed only when a later one arrives.
  /// @param loss_timeout time after which a packet that was reported as sent
  ///                     counts as lost, if no other one arrives.
  /// @errors throws std::logic_error if `lanes` does not fit the placement.
  lane_transport(const local_placement& placement,
                 std::vector<peer_lanes> lanes,
                 std::shared_ptr<fault_injector> faults,
                 clock_function now = {}, counts_by_process counts = {},
                 std::chrono::nanoseconds loss_timeout = std::chrono::seconds{
                   1});
  ~lane_transport() override;

  /// Returns a lane to a process. @pre the process is not this one.
  net::lane& lane_of(std::uint32_t process, collective::lane_id lane_id) {
    return *lanes_[process][std::size_t(lane_id)];
  }

  /// Returns why the lane to a process has ended, or that a packet of it is
  /// lost. None: neither.
  const std::optional<net::lane::closed_state>&
  closed(std::uint32_t process, collective::lane_id lane_id);

  /// Sends queued packets of all lanes, as far as the lanes accept them.
  /// @returns true if no sent packet is left in this process, except second
  ///          copies, and no peer reads a zero-copy buffer any more.
  bool flush();
  /// Sends queued packets to one process, as far as its lanes accept them.
  /// @returns true if no packet for the receiver is left in this process,
  ///          except second copies, and the receiver reads no zero-copy buffer
  ///          any more.
  bool flush(std::uint32_t process);

  std::span<std::byte> reserve(std::uint32_t process,
                               collective::lane_id lane_id) override;
  void send(std::uint32_t process, collective::lane_id lane_id,
            const packet_header_bytes& header, std::size_t bytes) override;
  bool send(std::uint32_t process, collective::lane_id lane_id,
            const packet_header_bytes& header,
            std::span<const std::byte> bytes) override;

  bool send_zero_copy(std::uint32_t process, collective::lane_id lane_id,
                      const packet_header_bytes& header,
                      std::span<const std::byte> bytes) override;

  const packet_header_bytes* front(std::uint32_t process,
                                   collective::lane_id lane_id) override;
  std::size_t front_bytes(std::uint32_t process,
                          collective::lane_id lane_id) override {
    return lane_of(process, lane_id).front_bytes();
  }
  std::span<const std::byte> view(std::uint32_t process,
                                  collective::lane_id lane_id) override {
    return lane_of(process, lane_id).view();
  }
  bool read_into(std::uint32_t process, collective::lane_id lane_id,
                 std::span<std::byte> into) override {
    return lane_of(process, lane_id).fetch(into);
  }
  bool is_intact(std::uint32_t process, collective::lane_id lane_id) override {
    return lane_of(process, lane_id).is_intact();
  }
  void pop(std::uint32_t process, collective::lane_id lane_id) override;

private:
  struct delayed_packet; ///< A packet that has an injected fault.
  struct lane_state;
  lane_state& state_of(std::uint32_t process, collective::lane_id lane_id);
  bool is_blocked(std::uint32_t process, collective::lane_id lane_id);
  packet_header_bytes numbered(std::uint32_t process,
                               collective::lane_id lane_id,
                               const packet_header_bytes& header);
  std::optional<fault_injector::injected_fault>
  fault_of(std::uint32_t process, const packet_header_bytes& header) const;
  void send_faulty(std::uint32_t process, collective::lane_id lane_id,
                   const fault_injector::injected_fault& fault,
                   delayed_packet&& packet);

  local_placement placement_;
  std::vector<peer_lanes> lanes_;
  std::shared_ptr<fault_injector> faults_;
  clock_function now_;
  counts_by_process counts_;
  std::chrono::nanoseconds loss_timeout_;
  std::vector<lane_state> states_; ///< By process and lane.
};

} // namespace troupe
