#include "troupe/training/support/atomic_file.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
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
    file_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  }
  if (file_ < 0)
    throw_error(errno);
}

void atomic_file::open_temporary() {
  static std::atomic<unsigned> next{0};
  do {
    temporary_ = path_.string() + "." + std::to_string(::getpid()) + "-"
                 + std::to_string(next++) + ".part";
    file_ =
      ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (file_ < 0 && errno == EEXIST);
  if (file_ < 0) {
    temporary_.clear();
    return;
  }
  struct stat old;
  if (::stat(path_.c_str(), &old) == 0)
    ::fchmod(file_, old.st_mode & 07777);
}

atomic_file::~atomic_file() {
  if (file_ >= 0)
    ::close(file_);
  if (!temporary_.empty())
    ::unlink(temporary_.c_str());
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

void atomic_file::sync() {
  if (temporary_.empty())
    return;
  if (::fsync(file_) != 0 || ::close(std::exchange(file_, -1)) != 0)
    throw_error(errno);
}

void atomic_file::commit() {
  if (temporary_.empty()) {
    if (::close(std::exchange(file_, -1)) != 0)
      throw_error(errno);
    return;
  }
  if (file_ >= 0)
    sync();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0)
    throw_error(errno);
  temporary_.clear();
  sync_directory(path_);
}

void atomic_file::throw_error(int error) const {
  throw std::runtime_error("cannot write \"" + given_path_.string()
                           + "\": " + std::strerror(error) + remedy(error));
}

void check_writable(const fs::path& path) {
  std::error_code none;
  // Opening a pipe would block until there is a reader.
  if (!path.empty() && fs::is_fifo(path, none)) {
    if (::access(path.c_str(), W_OK) != 0)
      throw std::runtime_error("cannot write \"" + path.string()
                               + "\": " + std::strerror(errno) + remedy(errno));
    return;
  }
  atomic_file{path};
}

} // namespace troupe
