#pragma once

#include "troupe/net/session/endpoint.hpp"

#include <functional>
#include <memory>
#include <mutex>
#include <string>

namespace troupe {

/// Several users of one endpoint: whoever dials it is led to the one whose job
/// and purpose he names. Safe to use from any thread.
class door {
public:
  /// Decides on a dialer, and gets his connection if he was taken, or hears
  /// that he was gone before he knew. Called on the endpoint's thread; must not
  /// block, nor let go of a guest.
  struct host {
    std::function<net::verdict(const net::hello&)> decide;
    std::function<void(const net::hello&, net::arrived&&)> take;
    std::function<void(const net::hello&)> gone{};
  };

  /// Being served. When it is gone nobody calls the host any more.
  class guest {
  public:
    virtual ~guest() = default;
  };

  /// Opens an endpoint of its own.
  /// @errors as net::endpoint's.
  explicit door(const net::endpoint_options& options);

  /// Takes over who is led in at an endpoint.
  explicit door(std::shared_ptr<net::endpoint> it);
  ~door();

  net::endpoint& endpoint() { return *it_; }

  /// @param job     as hellos name it.
  /// @param purpose "control", "parts", ...
  /// @errors throws std::logic_error if it is served already.
  std::unique_ptr<guest> serve(const std::string& job,
                               const std::string& purpose, host by);

private:
  class desk;
  void open();

  std::once_flag opened_;
  std::shared_ptr<desk> desk_;
  std::shared_ptr<net::endpoint> it_;
};

/// Whether a refusal's note says that nobody was there yet who could decide: it
/// may be that he comes.
bool is_too_early(const std::vector<std::byte>& note);

} // namespace troupe
