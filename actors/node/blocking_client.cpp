#include "troupe/actors/node/blocking_client.hpp"

#include <future>

namespace troupe {

namespace {

ec code_of(const net::endpoint::dialed& x) {
  if (x.refused)
    return ec::refused;
  return x.how == net::ending::silent ? ec::unreachable : ec::peer_lost;
}

} // namespace

std::unique_ptr<net::endpoint> endpoint_for(const remote_options& options) {
  net::endpoint_options to;
  to.credentials = options.credentials ? *options.credentials
                                       : net::credentials_from_environment();
  to.heartbeat = options.heartbeat;
  to.suspect = options.suspect;
  to.patience = options.patience;
  return std::make_unique<net::endpoint>(to);
}

std::shared_ptr<net::connection> call(net::endpoint& from,
                                      const std::string& where,
                                      const net::hello& who,
                                      std::chrono::milliseconds patience) {
  const auto to = net::parse_address(where);
  const auto done = std::make_shared<std::promise<net::endpoint::dialed>>();
  auto heard = done->get_future();
  from.dial(to, who, patience, [done](net::endpoint::dialed&& x) {
    done->set_value(std::move(x));
  });
  // The endpoint keeps the deadline. This one guards against an endpoint that
  // does not.
  if (heard.wait_for(2 * patience) != std::future_status::ready)
    throw failure{ec::unreachable,
                  where + ": the connection attempt did not end in time"};
  auto x = heard.get();
  if (!x.it)
    throw failure{code_of(x), x.why};
  if (auto* it = std::get_if<std::shared_ptr<net::connection>>(&*x.it))
    return std::move(*it);
  throw failure{ec::protocol, where + ": the connection does not carry frames"};
}

} // namespace troupe
