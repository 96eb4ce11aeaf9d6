#include "troupe/training/support/atomic_file.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <limits>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace troupe {

namespace fs = std::filesystem;

namespace {

std::string remedy(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "; free some space, or name a file on another disk";
    case EFBIG:
      return "; the system limits the size of files (ulimit -f)";
    case ENOENT:
    case ENOTDIR:
      return "; create its directory first, or name another file";
    case EACCES:
    case EPERM:
    case EROFS:
      return "; name a file in a directory that you may write to";
    case EISDIR:
      return "; name a file in that directory";
    default:
      return {};
  }
}

/// Open descriptors of no use but to be closed, see `reserve_descriptors`.
class descriptor_reserve {
public:
  void keep() {
    const std::lock_guard hold{mutex_};
    for (auto& one : descriptors_)
      if (one < 0)
        one = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  }

  /// @returns false if there was none.
  bool release() {
    const std::lock_guard hold{mutex_};
    bool found = false;
    for (auto& one : descriptors_)
      if (one >= 0) {
        ::close(std::exchange(one, -1));
        found = true;
      }
    return found;
  }

private:
  std::mutex mutex_;
  // For the temporary file, for the file that it replaces, and for a file that
  // is compared.
  std::array<int, 3> descriptors_{-1, -1, -1};
};

descriptor_reserve& reserve() {
  static descriptor_reserve one;
  return one;
}

/// Syncs the directory of the file `path`. Otherwise a crash may undo the
/// rename.
void sync_directory(const fs::path& path) {
  const auto folder = path.has_parent_path() ? path.parent_path() : ".";
  const auto file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0)
    // The directory may be writable but not readable. The rename has succeeded
    // in any case.
    return;
  ::fsync(file);
  ::close(file);
}

constexpr std::string_view temporary_suffix = ".part";

/// True if `name` is that of a temporary file of `file`: FILE.PID-N.part.
bool is_temporary_name(std::string_view name, std::string_view file) {
  if (!name.starts_with(file) || !name.ends_with(temporary_suffix))
    return false;
  name.remove_prefix(file.size());
  name.remove_suffix(std::min(name.size(), temporary_suffix.size()));
  const auto dash = name.find('-');
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
  };
  return name.starts_with('.') && dash != name.npos
         && is_number(name.substr(1, dash - 1))
         && is_number(name.substr(dash + 1));
}

/// Removes a temporary file, unless the process that writes it holds its lock.
void remove_if_abandoned(const fs::path& temporary) {
  const auto file =
    ::open(temporary.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0)
    return;
  if (::flock(file, LOCK_EX | LOCK_NB) == 0)
    ::unlink(temporary.c_str());
  ::close(file);
}

/// A lock on the file that has a path now. It has no effect if the file cannot
/// be read, or if it has a lock already.
class file_lock {
public:
  explicit file_lock(const fs::path& path)
    : file_{
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)} {
    if (file_ >= 0 && ::flock(file_, LOCK_EX | LOCK_NB) != 0)
      ::close(std::exchange(file_, -1));
  }
  ~file_lock() {
    if (file_ >= 0)
      ::close(file_);
  }
  file_lock(const file_lock&) = delete;
  file_lock& operator=(const file_lock&) = delete;

private:
  int file_;
};

bool rename_with(unsigned flags, const std::string& from, const fs::path& to) {
  return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags) == 0;
}

/// Exchanges two files. @returns false if it is not possible.
bool exchange_files(const std::string& a, const fs::path& b) {
  return rename_with(RENAME_EXCHANGE, a, b);
}

enum class placed { exchanged, renamed, not_possible };

/// Exchanges two files, or renames the first if the second does not exist. The
/// second file may appear and disappear meanwhile.
placed place(const std::string& from, const fs::path& to) {
  for (;;) {
    if (exchange_files(from, to))
      return placed::exchanged;
    if (errno != ENOENT)
      return placed::not_possible;
    if (rename_with(RENAME_NOREPLACE, from, to))
      return placed::renamed;
    if (errno != EEXIST)
      return placed::not_possible;
  }
}

} // namespace

atomic_file::atomic_file(const fs::path& path)
  : given_path_{path}, path_{path} {
  if (path.empty())
    throw std::runtime_error("cannot write a file without a name");
  std::error_code none;
  const auto status = fs::status(path, none);
  if (fs::is_directory(status))
    throw_error(EISDIR);
  if (!fs::exists(status) || fs::is_regular_file(status)) {
    if (fs::is_symlink(path, none))
      path_ = fs::weakly_canonical(path, none);
    open_temporary();
  } else {
    file_ = open(path, O_WRONLY);
  }
  if (file_ < 0)
    throw_error(errno);
}

int atomic_file::open(const fs::path& path, int flags) {
  const auto open_once = [&] {
    return ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  };
  const auto file = open_once();
  if (file >= 0 || errno != EMFILE || !reserve().release())
    return file;
  took_reserve_ = true;
  return open_once();
}

void atomic_file::open_temporary() {
  static std::atomic<unsigned> next{0};
  remove_abandoned();
  do {
    temporary_ = path_.string() + "." + std::to_string(::getpid()) + "-"
                 + std::to_string(next++) + std::string{temporary_suffix};
    file_ = open(temporary_, O_WRONLY | O_CREAT | O_EXCL);
    if (file_ >= 0)
      take_lock();
  } while (file_ < 0 && errno == EEXIST);
  if (file_ < 0) {
    temporary_.clear();
    return;
  }
  struct stat old;
  if (::stat(path_.c_str(), &old) == 0)
    ::fchmod(file_, old.st_mode & 07777);
}

/// Locks the new temporary file. Sets file_ to -1 and errno to EEXIST if
/// another process has removed the file before it was locked.
void atomic_file::take_lock() {
  // The other process holds its lock only while it removes the file.
  while (::flock(file_, LOCK_EX) != 0 && errno == EINTR) {
  }
  struct stat own;
  if (::fstat(file_, &own) == 0 && own.st_nlink > 0)
    return;
  ::close(std::exchange(file_, -1));
  errno = EEXIST;
}

/// Removes the temporary files that killed processes have left for this path.
void atomic_file::remove_abandoned() const {
  const auto folder = path_.has_parent_path() ? path_.parent_path() : ".";
  const auto name = path_.filename().string();
  std::error_code none; // A directory may be writable but not readable.
  for (fs::directory_iterator it{folder, none}, end; !none && it != end;
       it.increment(none))
    if (is_temporary_name(it->path().filename().string(), name))
      remove_if_abandoned(it->path());
}

atomic_file::~atomic_file() {
  if (file_ >= 0)
    ::close(file_);
  if (!temporary_.empty())
    ::unlink(temporary_.c_str());
  if (took_reserve_)
    reserve().keep();
}

void atomic_file::write(std::span<const std::byte> bytes) {
  // Maximum size of one `::write`.
  constexpr std::size_t max_bytes = std::size_t{1} << 30;
  while (!bytes.empty()) {
    const auto n =
      ::write(file_, bytes.data(), std::min(bytes.size(), max_bytes));
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      throw_error(errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void atomic_file::check_space(std::uint64_t bytes) {
  if (temporary_.empty() || bytes == 0)
    return;
  if (bytes > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max()))
    throw_error(EFBIG);
  int error = 0;
  do
    error = ::fallocate(file_, 0, 0, static_cast<off_t>(bytes)) ? errno : 0;
  while (error == EINTR);
  if (error == ENOSPC || error == EDQUOT || error == EFBIG
      || ::ftruncate(file_, 0) != 0)
    throw_error(error ? error : errno);
}

void atomic_file::sync() {
  if (temporary_.empty())
    return;
  // The descriptor stays open until the end, because it has the lock.
  if (::fsync(file_) != 0)
    throw_error(errno);
  is_synced_ = true;
}

void atomic_file::commit() {
  if (temporary_.empty()) {
    if (::close(std::exchange(file_, -1)) != 0)
      throw_error(errno);
    return;
  }
  if (!is_synced_)
    sync();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0)
    throw_error(errno);
  temporary_.clear();
  sync_directory(path_);
}

bool atomic_file::commit_unless(const order& is_newer) {
  if (temporary_.empty()) {
    commit();
    return true;
  }
  if (!is_synced_)
    sync();
  if (is_newer(path_, temporary_))
    return false;
  // A file at a temporary path without a lock would be removed as abandoned.
  std::optional<file_lock> of_replaced{path_};
  switch (place(temporary_, path_)) {
    case placed::exchanged:
      break;
    case placed::renamed:
      temporary_.clear();
      sync_directory(path_);
      return true;
    case placed::not_possible:
      commit();
      return true;
  }
  // The file that was replaced is at the temporary path now. Each exchange puts
  // a newer file in place, also if other processes write at the same time.
  bool kept = false;
  const file_lock of_later{temporary_}; // the path had another file meanwhile
  while (is_newer(temporary_, path_) && exchange_files(temporary_, path_)) {
    kept = true;
    of_replaced.emplace(temporary_);
  }
  ::unlink(temporary_.c_str());
  temporary_.clear();
  sync_directory(path_);
  return !kept;
}

void atomic_file::throw_error(int error) const {
  throw std::runtime_error("cannot write \"" + given_path_.string()
                           + "\": " + std::strerror(error) + remedy(error));
}

void remove_abandoned_files(const fs::path& folder, std::string_view prefix) {
  std::error_code none; // A directory may be writable but not readable.
  for (fs::directory_iterator it{folder, none}, end; !none && it != end;
       it.increment(none))
    if (const auto name = it->path().filename().string();
        name.starts_with(prefix) && name.ends_with(temporary_suffix))
      remove_if_abandoned(it->path());
}

void reserve_descriptors() {
  reserve().keep();
}

void check_writable(const fs::path& path, std::uint64_t bytes) {
  std::error_code none;
  // Opening a pipe would block until there is a reader.
  if (!path.empty() && fs::is_fifo(path, none)) {
    if (::access(path.c_str(), W_OK) != 0)
      throw std::runtime_error("cannot write \"" + path.string()
                               + "\": " + std::strerror(errno) + remedy(errno));
    return;
  }
  atomic_file{path}.check_space(bytes);
}

} // namespace troupe
