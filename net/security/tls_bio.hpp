#pragma once

#include <cstddef>
#include <openssl/bio.h>

namespace troupe::net {

/// What a socket under TLS moves at a time, if it can: so many full records.
constexpr std::size_t records_at_a_time = 8;

/// A connected socket as OpenSSL wants it: no SIGPIPE; what is written is
/// gathered until BIO_flush sends it, and read is what came, so that many
/// records are one system call. BIO_pending tells what nobody has asked for
/// yet. Does not own the descriptor. Belongs to who asked for it (BIO_free).
/// @errors throws std::bad_alloc.
BIO* make_tls_socket(int descriptor);

} // namespace troupe::net
