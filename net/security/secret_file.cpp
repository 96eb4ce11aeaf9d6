#include "troupe/net/security/secret_file.hpp"

#include "troupe/net/io/exclusive_file.hpp"
#include "troupe/net/io/temporary_folder.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <sys/random.h>

namespace troupe::net {

namespace {

namespace fs = std::filesystem;

std::string fresh_secret() {
  unsigned char bytes[32]; // `getrandom` returns up to 256 bytes as a whole
  if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
    throw std::runtime_error(std::string{"cannot draw a secret: "}
                             + std::strerror(errno));
  std::string text;
  for (const auto one : bytes) {
    text += "0123456789abcdef"[one >> 4];
    text += "0123456789abcdef"[one & 15];
  }
  return text + "\n";
}

fs::path make_folder() {
  auto name = (temporary_folder() / "troupe-job.XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr)
    throw std::runtime_error("cannot make the folder \"" + name
                             + "\": " + std::strerror(errno));
  return name;
}

void discard(const fs::path& folder) {
  std::error_code none;
  fs::remove_all(folder, none);
}

} // namespace

secret_file::secret_file() : folder_{make_folder()} {
  try {
    write_new_file(path(), fresh_secret(), file_access::owner);
  } catch (...) {
    discard(folder_);
    throw;
  }
}

secret_file::~secret_file() {
  discard(folder_);
}

} // namespace troupe::net
