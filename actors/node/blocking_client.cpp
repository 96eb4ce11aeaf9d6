#include "troupe/actors/node/blocking_client.hpp"

#include <future>

namespace troupe {

namespace {

ec error_code_of(const net::endpoint::dial_result& x) {
  if (x.rejected)
    return ec::refused;
  return x.cause == net::close_reason::timed_out ? ec::unreachable
                                                 : ec::peer_lost;
}

net::accepted_connection dial(net::endpoint& endpoint,
                              const std::string& address,
                              const net::hello& hello,
                              std::chrono::milliseconds timeout) {
  const auto target = net::parse_address(address);
  const auto done =
    std::make_shared<std::promise<net::endpoint::dial_result>>();
  auto result = done->get_future();
  endpoint.dial(target, hello, timeout, [done](net::endpoint::dial_result&& x) {
    done->set_value(std::move(x));
  });
  // `dial` reports a timeout itself. The longer timeout here only prevents an
  // endless wait if `dial` fails to do so.
  if (result.wait_for(2 * timeout) != std::future_status::ready)
    throw job_error{ec::unreachable,
                    address + ": the connection attempt did not end in time"};
  auto attempt = result.get();
  if (!attempt.connection)
    throw job_error{error_code_of(attempt), attempt.reason};
  return std::move(*attempt.connection);
}

} // namespace

std::unique_ptr<net::endpoint>
make_client_endpoint(const client_options& options) {
  net::endpoint_options endpoint_config;
  endpoint_config.credentials = options.credentials
                                  ? *options.credentials
                                  : net::credentials_from_environment();
  endpoint_config.heartbeat_interval = options.heartbeat_interval;
  endpoint_config.heartbeat_timeout = options.heartbeat_timeout;
  endpoint_config.handshake_timeout = options.connect_timeout;
  return std::make_unique<net::endpoint>(endpoint_config);
}

std::shared_ptr<net::connection> connect(net::endpoint& endpoint,
                                         const std::string& address,
                                         const net::hello& hello,
                                         std::chrono::milliseconds timeout) {
  auto dialed = dial(endpoint, address, hello, timeout);
  if (auto* connection = std::get_if<std::shared_ptr<net::connection>>(&dialed))
    return std::move(*connection);
  throw job_error{ec::protocol,
                  address + ": the connection does not carry frames"};
}

std::unique_ptr<net::stream> connect_stream(net::endpoint& endpoint,
                                            const std::string& address,
                                            const net::hello& hello,
                                            std::chrono::milliseconds timeout) {
  auto dialed = dial(endpoint, address, hello, timeout);
  if (auto* stream = std::get_if<std::unique_ptr<net::stream>>(&dialed))
    return std::move(*stream);
  throw job_error{ec::protocol, address + ": the connection carries frames"};
}

} // namespace troupe
