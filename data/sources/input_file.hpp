#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace troupe::data {

/// A file read from its first byte to its last, unpacked on the way if its
/// first bytes say gzip. Nothing that it says is believed before it was
/// checked.
///
/// All of these throw std::runtime_error with a sentence that names the file,
/// also for a folder, a pipe, and packed bytes that are damaged or cut short.
class byte_file {
public:
  explicit byte_file(const std::filesystem::path& name);
  ~byte_file();
  byte_file(const byte_file&) = delete;
  byte_file& operator=(const byte_file&) = delete;

  const std::string& name() const { return name_; }

  /// Unpacked bytes that there can be at most, by the size of the file: exact
  /// if it is plain. Ask before you allocate.
  std::uint64_t most() const;
  bool packed() const { return unpack_ != nullptr; }

  /// Fills `to`. @param what for the sentence if the file ends before: "header"
  void read(std::span<std::byte> to, const char* what);

  /// Makes sure that nothing follows (and that a packed file's checksum fits).
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
