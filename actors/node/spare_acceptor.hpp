#pragma once

#include "troupe/actors/node/spare_protocol.hpp"
#include "troupe/net/base/log_function.hpp"
#include "troupe/net/session/connection_options.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

namespace net {
class channel;
class connection;
} // namespace net

/// A node that waits for a client to use it.
struct waiting_spare {
  spare_description description;
  std::string name;              ///< Name of the node.
  std::uint64_t incarnation = 0; ///< Incarnation of its process.
  std::shared_ptr<net::connection> connection{};
  std::shared_ptr<net::channel> channel{};

  /// Sends the outcome and closes the connection. No effect if the spare has
  /// ended.
  void end(spare_outcome outcome) const;

  /// Closes the connection without an outcome, so that the node announces
  /// itself again after a delay.
  void disconnect(const std::string& reason) const;
};

/// Says whether a function applies to a spare that waits. It must not block and
/// must not call the acceptor. Null: to all.
using spare_filter = std::function<bool(const waiting_spare&)>;

/// Listens for nodes that announce themselves to a client as spares
/// (spare_protocol.hpp), and keeps those that live. Any thread may call its
/// functions.
class spare_acceptor {
public:
  struct options {
    std::string listen{}; ///< Address to listen on, "host:port".
    net::connection_options connection{};
    std::uint64_t incarnation = 0; ///< Incarnation of this process.
    std::size_t max_spares = 64;   ///< Maximum number of spares that wait.
    /// Returns why the client cannot use a spare. Empty: it can. Called on the
    /// endpoint's thread, so it must not block.
    std::function<std::string(const spare_description&)> fault_of{};
    net::log_function log{}; ///< Null: no log.
  };

  /// @errors throws as the constructor of `net::endpoint`.
  explicit spare_acceptor(const options& acceptor_options);

  /// Ends the connections of the spares that wait, without an outcome.
  ~spare_acceptor();
  spare_acceptor(const spare_acceptor&) = delete;
  spare_acceptor& operator=(const spare_acceptor&) = delete;

  /// Address at which nodes announce themselves, "host:port".
  const std::string& address() const;

  /// Addresses of the spares that wait, in the order of their arrival.
  std::vector<std::string> waiting(const spare_filter& filter = {}) const;

  /// Removes the first spare to which the filter applies. None: there is none.
  std::optional<waiting_spare> take(const spare_filter& filter = {});

  /// Releases all spares that wait.
  void release(const std::string& text);

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace troupe
