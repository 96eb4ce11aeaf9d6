#pragma once

#include "troupe/actors/membership/peers/reconnect_admission.hpp"
#include "troupe/net/codec/decode_error.hpp"
#include "troupe/net/io/process_handle.hpp"
#include "troupe/net/session/hello.hpp"
#include "troupe/strategies/membership/messages.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace troupe {

/// Makes the hello of a process of a job, which carries its join request and
/// its identity on its host.
/// @param name     display name of the process.
/// @param purpose  service of the acceptor, such as "control".
/// @param identity empty: the other processes do not watch this one.
net::hello make_join_hello(const std::string& job, const std::string& name,
                           const std::string& purpose,
                           membership::join_request request,
                           const net::process_identity& identity = {});

/// Reads the join request in the hello of a process.
/// @returns why the hello is malformed. None: it was read.
std::optional<net::decode_error>
read_join_hello(const net::hello& hello, membership::join_request& request);

/// Reads the identity in the hello of a process, also of one that connects
/// again. Empty: it has none.
net::process_identity read_process_identity(const net::hello& hello);

/// Makes the hello of a process whose connection to another member of the
/// running job was cut. The hello carries the join request and the identity of
/// the process, the id of its view, and the incarnation of the other member.
/// @param identity as in `make_join_hello`.
/// @param dialed   incarnation of the other member. A process that was started
///                 in its place rejects the hello.
net::hello make_reconnect_hello(const std::string& job, const std::string& name,
                                membership::join_request request,
                                std::uint64_t view_id, std::uint64_t dialed,
                                const net::process_identity& identity = {});

/// Reads the hello of a connection that is made again. The result is that of
/// `read_join_hello`.
std::optional<net::decode_error>
read_reconnect_hello(const net::hello& hello, reconnect_request& request);

/// Makes the hello of a stream between two processes of a view. The hello
/// carries the join request of its sender and the id of the view.
net::hello make_stream_hello(const std::string& job, const std::string& name,
                             const std::string& purpose,
                             membership::join_request request,
                             std::uint64_t view_id);

/// Reads the hello of a stream. The result is that of `read_join_hello`.
std::optional<net::decode_error>
read_stream_hello(const net::hello& hello, membership::join_request& request,
                  std::uint64_t& view_id);

} // namespace troupe
