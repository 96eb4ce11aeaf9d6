#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace troupe {

/// A file that appears complete or not at all. Writes go to a temporary file in
/// the same directory, which `sync` writes to the disk and `commit` renames.
/// Files that are not regular (a pipe, a terminal) are written directly.
///
/// The process holds a lock on its temporary file, and a killed process leaves
/// it without one. The constructor removes the temporary files of the same path
/// that have no lock.
class atomic_file {
public:
  /// True if the first file must be kept in place of the second one.
  using order = std::function<bool(const std::filesystem::path&,
                                   const std::filesystem::path&)>;

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

  /// Checks that a file of this size can be written: takes the space on the
  /// disk, and releases it. No effect on a file that is written directly, or on
  /// a file system that cannot reserve space. @pre called before `write`.
  void check_space(std::uint64_t bytes);

  /// Waits until the content is on the disk. After it, `commit` takes a short
  /// time. No effect on a file that
  /// is written directly. @pre called at most once, after the last write.
  void sync();

  /// Completes the file, after `sync` if the caller has not called it.
  /// @pre called at most once, after the last write.
  void commit();

  /// As `commit`, unless the file that would be replaced is newer than the
  /// written one. Another process may replace the file at any time, also while
  /// this process is stopped. So the two files are exchanged, and exchanged
  /// back if the one that comes out is newer. A file system that cannot
  /// exchange files (some network file systems) has a short time between the
  /// comparison and the replacement.
  /// @returns false if the file was kept.
  bool commit_unless(const order& is_newer);

private:
  void open_temporary();
  void remove_abandoned() const;
  void take_lock();
  int open(const std::filesystem::path& path, int flags);
  [[noreturn]] void throw_error(int error) const;

  std::filesystem::path given_path_; ///< Path as the caller named it.
  std::filesystem::path path_;       ///< Path after resolving symbolic links.
  /// Path of the temporary file. Empty: the file is written directly.
  std::string temporary_;
  int file_ = -1;
  bool is_synced_ = false;
  bool took_reserve_ = false; ///< True: the reserve is to be kept again.
};

/// Keeps three descriptors in reserve. If this process has reached its limit of
/// open files when an `atomic_file` is made, that file takes them. So the
/// result of long work can still be saved. No effect if they are kept already,
/// or if the process has reached its limit.
void reserve_descriptors();

/// Removes the temporary files that killed processes have left in a folder for
/// files whose names begin with `prefix`.
void remove_abandoned_files(const std::filesystem::path& folder,
                            std::string_view prefix);

/// Checks that a file of `bytes` bytes can be written, so that a program can
/// fail before it starts long work. Leaves no file behind.
void check_writable(const std::filesystem::path& path, std::uint64_t bytes = 0);

} // namespace troupe
