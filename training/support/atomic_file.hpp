#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace troupe {

/// A file that appears complete or not at all. Writes go to a temporary file in
/// the same directory, which `sync` writes to the disk and `commit` renames.
/// Files that are not regular (a pipe, a terminal) are written directly.
class atomic_file {
public:
  /// @errors throws std::runtime_error that names the file. All functions of
  ///         this header report errors in this way.
  explicit atomic_file(const std::filesystem::path& path);

  /// Removes the temporary file if `commit` did not succeed.
  ~atomic_file();
  atomic_file(const atomic_file&) = delete;
  atomic_file& operator=(const atomic_file&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) {
    write(std::as_bytes(std::span{text.data(), text.size()}));
  }

  /// Waits until the content is on the disk. After it, `commit` takes a short
  /// time, so that a caller can decide between them. No effect on a file that
  /// is written directly. @pre called at most once, after the last write.
  void sync();

  /// Completes the file, after `sync` if the caller has not called it.
  /// @pre called at most once, after the last write.
  void commit();

private:
  void open_temporary();
  [[noreturn]] void throw_error(int error) const;

  std::filesystem::path given_path_; ///< Path as the caller named it.
  std::filesystem::path path_;       ///< Path after resolving symbolic links.
  /// Path of the temporary file. Empty: the file is written directly.
  std::string temporary_;
  int file_ = -1;
};

/// Checks that the file can be written, so that a program can fail before it
/// starts long work. Leaves no file behind.
void check_writable(const std::filesystem::path& path);

} // namespace troupe
