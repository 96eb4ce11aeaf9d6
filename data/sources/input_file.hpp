#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace troupe::data {

/// Reads a file once from start to end, and decompresses it if its first bytes
/// are the gzip magic number.
///
/// All functions throw std::runtime_error that names the file, also for a
/// folder, a pipe, and compressed data that is damaged or truncated.
class byte_file {
public:
  explicit byte_file(const std::filesystem::path& name);
  ~byte_file();
  byte_file(const byte_file&) = delete;
  byte_file& operator=(const byte_file&) = delete;

  const std::string& name() const { return name_; }

  /// Maximum number of decompressed bytes, by the size of the file; exact for a
  /// plain file. Check it before you allocate memory.
  std::uint64_t most() const;
  bool packed() const { return unpack_ != nullptr; }

  /// Fills `destination`.
  /// @param section Name of the data in the error message if the file ends
  ///        early: "header".
  void read(std::span<std::byte> to, const char* what);

  /// Checks that no data follows, and that the checksum of a compressed file
  /// matches.
  void finish();

private:
  struct unpacker;

  std::size_t read_some(std::span<std::byte> to);
  std::size_t read_packed(std::span<std::byte> to);

  std::string name_;
  std::uint64_t size_ = 0;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  std::unique_ptr<unpacker> unpack_;
};

} // namespace troupe::data
