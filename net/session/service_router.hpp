#pragma once

#include "troupe/net/session/endpoint.hpp"

#include <functional>
#include <memory>
#include <mutex>
#include <string>

namespace troupe {

/// Routes the accepted connections of one endpoint to the service that is
/// registered for the job and purpose of the hello. Safe to use from any
/// thread.
class service_router {
public:
  /// Handles the connections of one service: `authorize` accepts or rejects,
  /// `accepted` takes ownership. `abandoned` is called if the peer disconnects
  /// after it was authorized but before the response was sent. Called on the
  /// endpoint's thread; must not block, nor destroy a registration.
  struct service_handler {
    std::function<net::hello_response(const net::hello&)> authorize;
    std::function<void(const net::hello&, net::accepted_connection&&)> accepted;
    std::function<void(const net::hello&)> abandoned{};
  };

  /// Registration of a service. After its destruction the handler is not called
  /// any more.
  class registration {
  public:
    virtual ~registration() = default;
  };

  /// Creates an endpoint.
  /// @errors as those of the constructor of `net::endpoint`.
  explicit service_router(const net::endpoint_options& options);

  /// Uses an existing endpoint and replaces its handler.
  explicit service_router(std::shared_ptr<net::endpoint> shared_endpoint);
  ~service_router();

  net::endpoint& endpoint() { return *endpoint_; }

  /// Registers a service.
  /// @param job name of the job in the hellos.
  /// @param purpose "control", "contributions", ...
  /// @param handler handler of the connections.
  /// @errors throws std::logic_error if the job and purpose are registered
  ///         already.
  std::unique_ptr<registration> serve(const std::string& job,
                                      const std::string& purpose,
                                      service_handler handler);

private:
  class routing_table;
  void open();

  std::once_flag opened_;
  std::shared_ptr<routing_table> routing_table_;
  std::shared_ptr<net::endpoint> endpoint_;
};

/// True if the connection was rejected because the service is not registered
/// yet; the dialer may retry.
/// @param payload payload of the response.
bool is_retryable(const std::vector<std::byte>& payload);

} // namespace troupe
