#include "troupe/actors/membership/peers/join_hello.hpp"

#include "troupe/net/codec/codec.hpp"

namespace troupe {

namespace {

/// Reads a payload that begins with a join request.
template <class... Rest>
std::optional<net::decode_error> read(const net::hello& hello,
                                      membership::join_request& request,
                                      Rest&... rest) {
  return net::decode(hello.payload, request.task, request.incarnation,
                     request.host, request.port, request.replicas,
                     request.config, rest...);
}

} // namespace

net::hello make_join_hello(const std::string& job, const std::string& name,
                           const std::string& purpose,
                           membership::join_request request,
                           const net::process_identity& identity) {
  const auto incarnation = request.incarnation;
  return {job, name, incarnation, purpose,
          net::encode(request.task, request.incarnation, request.host,
                      request.port, request.replicas, request.config,
                      identity)};
}

std::optional<net::decode_error>
read_join_hello(const net::hello& hello, membership::join_request& request) {
  net::process_identity identity;
  return read(hello, request, identity);
}

// The acceptor of a connection that is made again answers with a join hello.
net::process_identity read_process_identity(const net::hello& hello) {
  membership::join_request request;
  net::process_identity identity;
  std::uint64_t view_id = 0, dialed = 0;
  if (!read(hello, request, identity)
      || !read(hello, request, identity, view_id, dialed))
    return identity;
  return {};
}

net::hello make_reconnect_hello(const std::string& job, const std::string& name,
                                membership::join_request request,
                                std::uint64_t view_id, std::uint64_t dialed,
                                const net::process_identity& identity) {
  const auto incarnation = request.incarnation;
  return {job, name, incarnation, "reconnect",
          net::encode(request.task, request.incarnation, request.host,
                      request.port, request.replicas, request.config, identity,
                      view_id, dialed)};
}

std::optional<net::decode_error>
read_reconnect_hello(const net::hello& hello, reconnect_request& request) {
  net::process_identity identity;
  return read(hello, request.dialer, identity, request.view_id, request.dialed);
}

net::hello make_stream_hello(const std::string& job, const std::string& name,
                             const std::string& purpose,
                             membership::join_request request,
                             std::uint64_t view_id) {
  const auto incarnation = request.incarnation;
  return {job, name, incarnation, purpose,
          net::encode(request.task, request.incarnation, request.host,
                      request.port, request.replicas, request.config, view_id)};
}

std::optional<net::decode_error>
read_stream_hello(const net::hello& hello, membership::join_request& request,
                  std::uint64_t& view_id) {
  return read(hello, request, view_id);
}

} // namespace troupe
