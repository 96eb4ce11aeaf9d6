#pragma once

#include "troupe/actors/collectives/nccl/communicator/communicator_ids.hpp"
#include "troupe/actors/collectives/nccl/communicator/device_offer.hpp"
#include "troupe/net/session/connection.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace troupe {

/// The id of a communicator, from the process with rank 0.
struct published_id {
  std::uint64_t generation = 0; ///< Generation of the communicator; not 0.
  communicator_id id{};

  friend bool operator==(const published_id&, const published_id&) = default;
};

/// A message between two processes that set up NCCL in a view.
using communicator_message = std::variant<device_offer, published_id>;

/// The first field of a message. The numbers are a wire format: never change
/// one.
enum class communicator_message_kind : std::uint8_t { offer = 0, id = 1 };

std::vector<std::byte> encode(const communicator_message& message);
/// Sets `message`. @returns why the bytes are no message. Empty: they are one.
std::string decode(std::span<const std::byte> bytes,
                   communicator_message& message);

/// Sets up NCCL among the processes of a view, over their control connections.
///
///   who    each process of the view that hosts replicas
///   start  each process sends its offer to all others
///   on     the id of a generation's communicator, which rank 0 publishes: its
///          process, 0, sends it to all others, over the channel on which it
///          has sent its offer
///   end    with the view. Each view has channels of its own
///   cost   one message from each process to each other one, and from process
///          0 to each other one for each generation with a sum on devices
///   drops  messages of another view
///   faults a malformed message closes the connection, with a reason. A
///          message that does not arrive is noticed by the deadline of its
///          receiver
class communicator_channels final : public communicator_id_exchange {
public:
  struct peer {
    std::string name;
    /// Null: this process, which is in the list once.
    std::shared_ptr<net::connection> connection;
  };

  /// Opens the channels.
  /// @param peers   the processes that host replicas, in their order.
  /// @param channel number of the channel on each connection.
  /// @param changed called when a message of this view has arrived. Must not
  ///        block.
  communicator_channels(std::vector<peer> peers, std::uint64_t view_id,
                        std::uint32_t channel, std::function<void()> changed);
  ~communicator_channels() override;
  communicator_channels(const communicator_channels&) = delete;
  communicator_channels& operator=(const communicator_channels&) = delete;

  /// Sends the offer of this process to all others.
  void send(const device_offer& own);
  /// Returns the offers of all processes, in the order of `peers`. Nullopt: one
  /// has not arrived yet.
  std::optional<std::vector<named_offer>> offers() const;

  void publish(std::uint64_t generation, const communicator_id& id) override;
  std::optional<communicator_id> find(std::uint64_t generation) override;

private:
  class listener;
  struct received;
  /// @param index of the receiver in `peers`.
  void post(std::uint32_t index, const communicator_message& message);

  const std::uint64_t view_id_;
  const std::vector<peer> peers_;
  std::vector<std::shared_ptr<net::channel>> channels_; ///< By process.
  const std::shared_ptr<received> received_;
  std::atomic<std::uint64_t> last_tag_ = 0; ///< Last tag of a sent message.
};

} // namespace troupe
