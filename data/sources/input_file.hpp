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
class input_file {
public:
  explicit input_file(const std::filesystem::path& name);
  ~input_file();
  input_file(const input_file&) = delete;
  input_file& operator=(const input_file&) = delete;

  const std::string& name() const { return name_; }

  /// Returns an upper bound for the number of decompressed bytes, computed from
  /// the size of the file. The bound is exact for a plain file. Callers check
  /// the bound before they allocate memory.
  std::uint64_t max_size() const;
  bool is_compressed() const { return gzip_reader_ != nullptr; }

  /// Fills `destination`.
  /// @param section Name of the data, such as "header", for the error message
  ///        if the file ends early.
  void read(std::span<std::byte> destination, const char* section);

  /// Checks that no data follows, and that the checksum of a compressed file
  /// matches.
  void finish();

private:
  struct gzip_reader;

  std::size_t read_some(std::span<std::byte> destination);
  std::size_t read_compressed(std::span<std::byte> destination);

  std::string name_;
  std::uint64_t size_ = 0;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  std::unique_ptr<gzip_reader> gzip_reader_;
};

} // namespace troupe::data
