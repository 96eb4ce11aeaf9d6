#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace troupe {

/// SHA-256 of bytes that are added in pieces.
class sha256 {
public:
  using value = std::array<std::byte, 32>;

  sha256();
  ~sha256();
  sha256(sha256&&) noexcept;
  sha256& operator=(sha256&&) noexcept;

  sha256& add(std::span<const std::byte> bytes);

  /// Returns the hash of all bytes added. @pre called at most once; no bytes
  /// are added afterwards.
  value finish();

private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

/// Returns the hash as 64 lower-case hexadecimal digits.
std::string to_hex(const sha256::value& x);

} // namespace troupe
