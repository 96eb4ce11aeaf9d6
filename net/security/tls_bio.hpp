#pragma once

#include <cstddef>
#include <openssl/bio.h>

namespace troupe::net {

/// Maximum number of full TLS records that one system call transfers.
constexpr std::size_t records_per_syscall = 8;

/// Creates an OpenSSL BIO (byte source and sink) for a connected socket. It
/// collects written bytes until BIO_flush, and reads ahead, so that one system
/// call transfers several records. BIO_pending returns the number of bytes that
/// were read ahead. It raises no SIGPIPE. The BIO does not own the descriptor.
/// The caller frees the BIO with BIO_free.
/// @errors throws std::bad_alloc.
BIO* make_tls_bio(int descriptor);

} // namespace troupe::net
