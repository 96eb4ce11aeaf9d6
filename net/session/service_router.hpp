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
class door {
public:
  /// Handles the connections of one service: `authorize` accepts or rejects,
  /// `accepted` takes ownership. `abandoned` is called if the peer disconnects
  /// after it was authorized but before the response was sent. Called on the
  /// endpoint's thread; must not block, nor destroy a registration.
  struct host {
    std::function<net::verdict(const net::hello&)> decide;
    std::function<void(const net::hello&, net::arrived&&)> take;
    std::function<void(const net::hello&)> gone{};
  };

  /// Registration of a service. After its destruction the handler is not called
  /// any more.
  class guest {
  public:
    virtual ~guest() = default;
  };

  /// Creates an endpoint.
  /// @errors as those of the constructor of `net::endpoint`.
  explicit door(const net::endpoint_options& options);

  /// Uses an existing endpoint and replaces its handler.
  explicit door(std::shared_ptr<net::endpoint> it);
  ~door();

  net::endpoint& endpoint() { return *it_; }

  /// Registers a service.
  /// @param job name of the job in the hellos.
  /// @param purpose "control", "parts", ...
  /// @param handler handler of the connections.
  /// @errors throws std::logic_error if the job and purpose are registered
  ///         already.
  std::unique_ptr<guest> serve(const std::string& job,
                               const std::string& purpose, host by);

private:
  class desk;
  void open();

  std::once_flag opened_;
  std::shared_ptr<desk> desk_;
  std::shared_ptr<net::endpoint> it_;
};

/// True if the connection was rejected because the service is not registered
/// yet; the dialer may retry.
/// @param payload payload of the response.
bool is_too_early(const std::vector<std::byte>& note);

} // namespace troupe
