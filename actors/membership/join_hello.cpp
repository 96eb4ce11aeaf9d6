#include "troupe/actors/membership/join_hello.hpp"

#include "troupe/net/codec/codec.hpp"

namespace troupe {

net::hello make_join_hello(const std::string& job, const std::string& name,
                           const std::string& purpose,
                           membership::join_request request) {
  const auto incarnation = request.incarnation;
  return {job, name, incarnation, purpose,
          net::encode(request.task, request.incarnation, request.host,
                      request.port, request.replicas, request.config)};
}

std::optional<net::decode_error>
read_join_hello(const net::hello& hello, membership::join_request& request) {
  return net::decode(hello.payload, request.task, request.incarnation,
                     request.host, request.port, request.replicas,
                     request.config);
}

} // namespace troupe
