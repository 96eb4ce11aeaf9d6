#pragma once

#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/node/spare_protocol.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace troupe {

class service_router;

/// Announces a node to a client as a spare (spare_protocol.hpp), on a thread of
/// its own. While the client does not answer, it dials again after delays that
/// grow. It announces the node again if the connection is lost before the
/// client has sent an outcome.
class spare_announcer {
public:
  struct options {
    std::string client{}; ///< Address of the client, "host:port".
    /// Maximum time without a connection to the client.
    std::chrono::milliseconds join_timeout{300'000};
    /// Timeout of one attempt.
    std::chrono::milliseconds attempt_timeout{5000};
    std::string name{};            ///< Name of the node.
    std::uint64_t incarnation = 0; ///< Incarnation of the process.
    std::uint64_t seed = 0;        ///< Seed of the delays.
    /// Returns the description of the node. Called for each attempt.
    std::function<spare_description()> describe{};
    /// Receives a sentence for each event: the client has accepted the node or
    /// sent an outcome that is no failure, or its connection was lost.
    std::function<void(const std::string&)> on_event{};
    /// Called once if the client refuses the node (`refused`, or `protocol`),
    /// or does not answer in time (`unreachable`). The text says why.
    std::function<void(const job_error&)> on_failure{};
  };

  /// Begins to dial, from the endpoint of the router.
  /// @errors throws std::invalid_argument if the address of the client is
  ///         malformed, if no process can connect to that of the node, or if
  ///         the client is beyond loopback and there are no credentials.
  spare_announcer(std::shared_ptr<service_router> router,
                  const options& announcer_options);

  /// Closes the connection to the client. No callback runs afterwards.
  ~spare_announcer();
  spare_announcer(const spare_announcer&) = delete;
  spare_announcer& operator=(const spare_announcer&) = delete;

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

} // namespace troupe
