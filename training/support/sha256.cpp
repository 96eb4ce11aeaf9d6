#include "troupe/training/support/sha256.hpp"

#include <openssl/evp.h>
#include <stdexcept>

namespace troupe {

struct sha256::impl {
  EVP_MD_CTX* state = EVP_MD_CTX_new();
  ~impl() { EVP_MD_CTX_free(state); }
};

namespace {

void check(bool ok) {
  if (!ok)
    throw std::runtime_error("OpenSSL does not provide SHA-256");
}

} // namespace

sha256::sha256() : impl_{std::make_unique<impl>()} {
  check(impl_->state != nullptr
        && EVP_DigestInit_ex(impl_->state, EVP_sha256(), nullptr) == 1);
}

sha256::~sha256() = default;
sha256::sha256(sha256&&) noexcept = default;
sha256& sha256::operator=(sha256&&) noexcept = default;

sha256& sha256::add(std::span<const std::byte> bytes) {
  check(EVP_DigestUpdate(impl_->state, bytes.data(), bytes.size()) == 1);
  return *this;
}

sha256::value sha256::finish() {
  value out;
  check(EVP_DigestFinal_ex(
          impl_->state, reinterpret_cast<unsigned char*>(out.data()), nullptr)
        == 1);
  return out;
}

std::string to_hex(const sha256::value& x) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const auto b : x) {
    text += digits[std::to_integer<unsigned>(b) >> 4];
    text += digits[std::to_integer<unsigned>(b) & 15];
  }
  return text;
}

} // namespace troupe
