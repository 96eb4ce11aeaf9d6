#pragma once

#include "troupe/actors/shard/host_connector.hpp"
#include "troupe/actors/shard/shard_host_internal_actor.hpp"
#include "troupe/strategies/parameter_server/shard_copy.hpp"

#include <caf/actor_addr.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

namespace troupe {

/// Sends the messages of the primaries of a shard host to the backups in other
/// processes, and connects to these. It sends a message once for each
/// connection, unless the backup has not taken it. The state machines send all
/// messages again that matter.
class backup_sender {
public:
  /// What it asks of the host, by shard.
  struct host_functions {
    std::function<std::uint64_t(std::uint32_t shard)> view_of;
    /// Saves what the primary holds, and its tensors.
    std::function<shard_image(std::uint32_t shard, tensors& beside)> image_of;
    /// Takes the answer of a backup.
    std::function<void(std::uint32_t shard,
                       const parameter_server::stored& answer)>
      on_stored;
  };

  backup_sender(shard_host_internal_actor::pointer self, host_connector connect,
                host_functions host);

  /// @param servers that can have copies, without this process.
  void set_servers(const std::vector<server_address>& servers);
  void send(std::uint32_t shard, parameter_server::send_record&& x);
  void send(std::uint32_t shard, parameter_server::send_snapshot&& x);
  void send(std::uint32_t shard, const parameter_server::send_inquire& x);
  void send(std::uint32_t shard, const parameter_server::send_in_sync& x);
  /// Takes a connection that it has asked for.
  /// @returns true: messages can be sent there now.
  bool on_link(const host_link& x);
  void on_down(const caf::actor_addr& source);

private:
  /// A message to a backup, with its shard.
  struct outgoing {
    std::uint32_t shard = 0;
    std::variant<parameter_server::send_record, copy_snapshot,
                 parameter_server::inquire, parameter_server::in_sync>
      what;
    tensors beside{};
  };
  /// What was sent of a shard to a process, and not lost.
  struct progress {
    std::uint64_t view_id = 0;
    std::uint64_t sent = 0;        ///< Last record.
    std::set<std::size_t> pending; ///< Kinds of other messages on their way.
  };
  /// Another process.
  struct peer {
    std::string address;
    bool is_connecting = false;
    host_link link;
    std::uint64_t connection = 0; ///< Counts connections.
    std::deque<outgoing> queue;
    std::size_t in_flight = 0;
    std::map<std::uint32_t, progress> sent; ///< By shard.
  };

  void send(std::uint64_t to, outgoing&& message);
  void pump(std::uint64_t to, peer& at);
  template <class... Ts>
  void request_of(std::uint64_t to, peer& at, const outgoing& message,
                  std::uint64_t sequence, std::uint64_t view_id, Ts&&... xs);
  void on_stored(std::uint64_t from, std::uint64_t connection,
                 std::uint32_t shard, std::size_t kind, std::uint64_t sequence,
                 std::uint64_t view_id, const parameter_server::stored* answer);

  shard_host_internal_actor::pointer self_;
  const host_connector connect_;
  const host_functions host_;
  std::map<std::uint64_t, peer> peers_; ///< By incarnation.
};

} // namespace troupe
