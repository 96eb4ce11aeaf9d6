#include "troupe/net/security/hmac.hpp"

#include <cerrno>
#include <new>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdexcept>
#include <string>
#include <sys/random.h>
#include <system_error>
#include <vector>

namespace troupe::net {

namespace {

const unsigned char* raw(std::span<const std::byte> x) {
  return reinterpret_cast<const unsigned char*>(x.data());
}

/// Throws the errors of OpenSSL in this thread, and clears them.
/// @errors throws std::bad_alloc if memory was lacking, else
///         std::runtime_error.
[[noreturn]] void throw_openssl_error(const std::string& problem) {
  bool lacks_memory = false;
  std::string reason;
  while (const auto code = ERR_get_error()) {
    lacks_memory |= ERR_GET_REASON(code) == ERR_R_MALLOC_FAILURE;
    if (const char* text = ERR_reason_error_string(code);
        text && reason.empty())
      reason = std::string{": "} + text;
  }
  if (lacks_memory)
    throw std::bad_alloc{};
  throw std::runtime_error{problem + reason};
}

} // namespace

hmac hmac_sha256(std::string_view secret,
                 std::initializer_list<std::span<const std::byte>> inputs) {
  std::vector<std::byte> input;
  for (const auto x : inputs)
    input.insert(input.end(), x.begin(), x.end());
  hmac result{};
  unsigned size = 0;
  if (!HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
            raw(input), input.size(),
            reinterpret_cast<unsigned char*>(result.data()), &size)
      || size != result.size())
    throw_openssl_error("HMAC-SHA-256 is not available");
  return result;
}

bool constant_time_equal(std::span<const std::byte> a,
                         std::span<const std::byte> b) {
  return a.size() == b.size()
         && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

void random_bytes(std::span<std::byte> target) {
  // The kernel needs no memory of this process for them, unlike OpenSSL.
  while (!target.empty()) {
    const auto count = ::getrandom(target.data(), target.size(), 0);
    if (count < 0 && errno != EINTR)
      throw std::system_error{errno, std::generic_category(),
                              "no random bytes are available"};
    if (count > 0)
      target = target.subspan(static_cast<std::size_t>(count));
  }
}

} // namespace troupe::net
