#pragma once

#include "troupe/net/session/endpoint.hpp"

#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

namespace troupe {

/// Two handlers are registered for one job and purpose.
class service_exists : public std::logic_error {
public:
  using std::logic_error::logic_error;
};

/// Routes each accepted connection of an endpoint to the service that is
/// registered for the job and purpose in the dialer's hello. The owner
/// registers its services, and then calls `open`. A job that begins later on
/// the same endpoint registers its services then. Any thread may call the
/// functions.
class service_router {
public:
  /// Handles the connections of one service. `authorize` accepts or rejects a
  /// hello, and `accepted` receives the connection, unless the handshake ends
  /// before the response is sent. These functions are called on the endpoint's
  /// thread. They must not block or destroy a registration.
  struct service_handler {
    std::function<net::hello_response(const net::hello&)> authorize;
    std::function<void(const net::hello&, net::accepted_connection&&)> accepted;
  };

  /// Keeps a service registered. When its destructor has returned, the handler
  /// is not called any more.
  class registration {
  public:
    virtual ~registration() = default;
  };

  /// Creates an endpoint.
  /// @errors throws as the constructor of `net::endpoint`.
  explicit service_router(const net::endpoint_options& options);

  /// Uses an existing endpoint. `open` replaces the endpoint's handler.
  explicit service_router(std::shared_ptr<net::endpoint> shared_endpoint);
  ~service_router();

  net::endpoint& endpoint() { return *endpoint_; }

  /// Registers a service.
  /// @param job name of the job in the dialer's hello.
  /// @param purpose purpose in the dialer's hello, such as "control".
  /// @param handler handler of the service's connections.
  /// @errors throws `service_exists` if the job and purpose are registered
  ///         already.
  std::unique_ptr<registration> serve(const std::string& job,
                                      const std::string& purpose,
                                      service_handler handler);

  /// Begins to accept connections. Until then, dialing peers wait. Further
  /// calls have no effect.
  void open();

private:
  class routing_table;

  std::once_flag opened_;
  std::shared_ptr<routing_table> routing_table_;
  std::shared_ptr<net::endpoint> endpoint_;
};

/// True if a connection was rejected because its service is not registered. The
/// dialer may retry, because a job may begin later than the endpoint of its
/// process.
/// @param payload payload of the hello response.
bool is_retryable(const std::vector<std::byte>& payload);

} // namespace troupe
