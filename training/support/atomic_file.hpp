#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace troupe {

/// A file that appears complete or not at all: what is written goes to a
/// temporary file beside it, which `commit` syncs and renames. What is no
/// regular file (a pipe, a terminal) is written to directly.
class safe_file {
public:
  /// @errors throws std::runtime_error with a sentence that names the file, as
  ///         do all functions here.
  explicit safe_file(const std::filesystem::path& path);

  /// Removes the temporary file if `commit` was not reached.
  ~safe_file();
  safe_file(const safe_file&) = delete;
  safe_file& operator=(const safe_file&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) {
    write(std::as_bytes(std::span{text.data(), text.size()}));
  }

  /// Once; nothing may be written after that.
  void commit();

private:
  void open_temporary();
  [[noreturn]] void fail(int error) const;

  std::filesystem::path shown_; ///< As the caller named it.
  std::filesystem::path path_;  ///< With links followed.
  std::string temporary_;       ///< Empty: written to directly.
  int file_ = -1;
};

/// Throws what writing that file would throw at its start: for a program to say
/// so before long work. Leaves nothing behind.
void check_writable(const std::filesystem::path& path);

} // namespace troupe
