#include "troupe/net/security/hmac.hpp"

#include <algorithm>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <stdexcept>
#include <vector>

namespace troupe::net {

namespace {

const unsigned char* raw(std::span<const std::byte> x) {
  return reinterpret_cast<const unsigned char*>(x.data());
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
    throw std::runtime_error{"HMAC-SHA-256 is not available"};
  return result;
}

bool constant_time_equal(std::span<const std::byte> a,
                         std::span<const std::byte> b) {
  return a.size() == b.size()
         && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

void random_bytes(std::span<std::byte> target) {
  if (RAND_bytes(reinterpret_cast<unsigned char*>(target.data()),
                 static_cast<int>(target.size()))
      != 1)
    throw std::runtime_error{"no random bytes are available"};
}

} // namespace troupe::net
