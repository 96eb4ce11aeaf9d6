#pragma once

#include <cstddef>
#include <openssl/bio.h>

namespace troupe::net {

/// Maximum number of full records that one system call transfers.
constexpr std::size_t records_per_syscall = 8;

/// Creates an OpenSSL BIO for a connected socket. It raises no SIGPIPE,
/// collects written bytes until BIO_flush, and reads ahead, so that one system
/// call transfers many records. BIO_pending returns the bytes that were read
/// ahead. The BIO does not own the descriptor. The caller frees it with
/// BIO_free.
/// @errors throws std::bad_alloc.
BIO* make_tls_bio(int descriptor);

} // namespace troupe::net
