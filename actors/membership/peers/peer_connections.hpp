#pragma once

#include "troupe/actors/membership/peers/membership_context.hpp"
#include "troupe/actors/membership/peers/packet_reporter.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace troupe {

/// The connection to another process of the job.
struct peer_connection {
  std::uint32_t task = 0;
  std::uint64_t incarnation = 0;
  std::uint64_t number = 0; ///< Number of the connection.
  std::shared_ptr<net::connection> connection;
  std::shared_ptr<net::channel> control, view_changes, results, packet_reports;
  /// Null: the process is not on this host.
  std::shared_ptr<const net::process_handle> process;
  std::uint64_t last_tag = 0; ///< Number of the last message sent.
  /// What the process asked for when it connected to a running job. None: it
  /// belongs to the first view.
  std::optional<membership::join_request> request{};
  packet_reporter reporter{};

  view_change::process_id id() const { return {task, incarnation}; }
};

/// The open connections of a process to the other processes of its job, one to
/// each. It passes what arrives on them to the membership actor, and sends
/// messages.
class peer_connections {
public:
  /// What remains of a connection that has ended.
  struct ended_connection {
    view_change::process_id process;
    bool was_closed = false; ///< The other process has closed it.
    /// As in `peer_connection`.
    std::shared_ptr<const net::process_handle> handle{};
    std::optional<membership::join_request> request{};
  };

  /// @param context must outlive this object.
  explicit peer_connections(const membership_context& context)
    : context_{context} {}
  peer_connections(const peer_connections&) = delete;
  peer_connections& operator=(const peer_connections&) = delete;

  /// Takes the connection to the process of a task, and closes the one before
  /// it.
  peer_connection& add(const view_change::process_id& process,
                       std::shared_ptr<net::connection> connection);
  /// A connection has ended. None: it is not the one to the process any more.
  std::optional<ended_connection> remove(const membership_event::closed& x);
  void close_all(const std::string& reason);

  bool contains(std::uint32_t task) const { return peers_.contains(task); }
  /// @returns null if no process of this task is connected.
  const peer_connection* find(std::uint32_t task) const;
  /// @returns null if this process is not connected.
  peer_connection* find(const view_change::process_id& process);
  const peer_connection* find(const view_change::process_id& process) const;
  /// @param number of the connection.
  /// @returns null if it is not the one to the process of the task any more.
  peer_connection* find_connection(std::uint32_t task, std::uint64_t number);
  /// All connections, by task.
  std::map<std::uint32_t, peer_connection>& all() { return peers_; }
  std::size_t size() const { return peers_.size(); }

  // No effect if the receiver is not connected, which the state machines hear.

  void send(std::uint32_t task, const membership::message& message);
  void send(const view_change::process_id& receiver,
            const view_change::message& message);
  /// Tells a candidate the view of the job.
  void send_view(std::uint32_t task);
  /// Sends a message on a channel of membership.
  /// @param tag number of the message on the channel.
  static bool post(net::channel& channel, std::uint64_t tag,
                   const membership::message& message);

  /// Returns a handle of a process that connects. Null: it is not on this host.
  std::shared_ptr<const net::process_handle> watch(const net::hello& of) const;
  /// Number of a process of this host that was connected (pid). None: it is on
  /// another host.
  std::optional<std::uint64_t> number_of(std::uint64_t incarnation) const;
  /// By incarnation: why the connections to members have ended. A member that
  /// connects again during a view change stays here until its end.
  const std::map<std::uint64_t, std::string>& causes_of_loss() const {
    return causes_of_loss_;
  }
  /// A view takes effect: forgets former members, and the causes of loss of
  /// members that are connected.
  void on_installed(const membership::view& next);

private:
  bool is_connected(std::uint64_t incarnation) const;
  void listen(const peer_connection& one);

  const membership_context& context_;
  std::map<std::uint32_t, peer_connection> peers_; ///< By task.
  std::uint64_t last_number_ = 0; ///< Number of the last connection.
  /// By incarnation: numbers of the processes of this host that were connected.
  std::map<std::uint64_t, std::uint64_t> process_numbers_;
  std::map<std::uint64_t, std::string> causes_of_loss_;
};

} // namespace troupe
