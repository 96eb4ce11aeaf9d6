#include "troupe/actors/membership/join_hello.hpp"

#include "troupe/net/codec/codec.hpp"

namespace troupe {

namespace {

std::optional<net::decode_error> read(const net::hello& hello,
                                      membership::join_request& request,
                                      net::process_identity& identity) {
  return net::decode(hello.payload, request.task, request.incarnation,
                     request.host, request.port, request.replicas,
                     request.config, identity);
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

net::process_identity read_process_identity(const net::hello& hello) {
  membership::join_request request;
  net::process_identity identity;
  return read(hello, request, identity) ? net::process_identity{} : identity;
}

net::hello make_reconnect_hello(const std::string& job, const std::string& name,
                                membership::join_request request,
                                std::uint64_t view_id) {
  return make_stream_hello(job, name, "reconnect", std::move(request), view_id);
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
  return net::decode(hello.payload, request.task, request.incarnation,
                     request.host, request.port, request.replicas,
                     request.config, view_id);
}

} // namespace troupe
