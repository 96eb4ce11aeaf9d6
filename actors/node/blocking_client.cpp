#include "troupe/actors/node/blocking_client.hpp"

#include "troupe/actors/core/error_code_caf.hpp"
#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/core/spawn.hpp"
#include "troupe/actors/remoting/message_codec.hpp"

#include <caf/exit_reason.hpp>
#include <caf/message_view.hpp>
#include <caf/others.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/sec.hpp>

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
  endpoint_config.connection = options.connection;
  endpoint_config.connection.handshake_timeout =
    std::min(options.connection.handshake_timeout, options.connect_timeout);
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

namespace {

/// Returns the exit reason of an actor that has ended, as the error of a
/// request to this actor.
caf::error exit_reason_of(caf::scoped_actor& self,
                          const caf::actor_addr& ended_actor) {
  auto reason = caf::make_error(ec::peer_lost, std::string{"the role ended"});
  self->monitor(ended_actor);
  // The actor has ended, so its exit reason arrives at once. The timeout only
  // prevents an endless wait.
  self->receive(
    [&](const caf::down_msg& x) {
      if (x.reason.category() == caf::atom("troupe"))
        reason = x.reason;
      else if (x.reason && x.reason != caf::exit_reason::user_shutdown)
        reason = caf::make_error(
          ec::peer_lost, "the role ended: " + self->system().render(x.reason));
      else
        reason = caf::make_error(ec::peer_lost,
                                 std::string{"the role has ended normally"});
    },
    caf::after(std::chrono::seconds{1}) >> [] {});
  return reason;
}

} // namespace

caf::message detail::await_response(caf::actor_system& system,
                                    const std::string& operation,
                                    const caf::actor& target,
                                    std::chrono::milliseconds timeout,
                                    caf::message&& request) {
  caf::message response;
  caf::error error;
  {
    caf::scoped_actor self{system};
    self->request(target, timeout, std::move(request))
      .receive([&](caf::error& e) { error = std::move(e); },
               caf::others >>
                 [&](caf::message_view& x) -> caf::result<caf::message> {
                 response = x.move_content_to_message();
                 return caf::message{};
               });
    if (error == caf::sec::request_receiver_down)
      error = exit_reason_of(self, target->address());
  }
  release_caf_logger();
  if (!error)
    return response;
  if (error == caf::sec::request_timeout)
    throw job_error{ec::stalled, operation + ": no response within "
                                   + std::to_string(timeout.count()) + " ms"};
  const auto note = wire::to_wire(error, system);
  throw job_error{note.code, operation + ": " + note.text};
}

} // namespace troupe
