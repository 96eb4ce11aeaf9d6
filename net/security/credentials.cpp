#include "troupe/net/security/credentials.hpp"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <stdexcept>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace troupe::net {

namespace {

constexpr std::size_t max_secret_bytes = 4096;

struct open_file {
  explicit open_file(const std::string& name)
    : fd{::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)} {}
  ~open_file() {
    if (fd >= 0)
      ::close(fd);
  }
  open_file(const open_file&) = delete;
  open_file& operator=(const open_file&) = delete;
  const int fd;
};

[[noreturn]] void refuse(const std::string& file, const std::string& why) {
  throw std::runtime_error{"the secret in '" + file
                           + "' cannot be used: " + why};
}

void check(const std::string& file, const open_file& opened) {
  if (opened.fd < 0)
    refuse(file, std::generic_category().message(errno));
  struct stat is {};
  if (::fstat(opened.fd, &is) != 0 || !S_ISREG(is.st_mode))
    refuse(file, "it is not a regular file");
  if ((is.st_mode & (S_IRWXG | S_IRWXO)) != 0)
    refuse(file,
           "users other than its owner may access it; run chmod 600 on it");
}

} // namespace

std::string read_secret(const std::string& file) {
  const open_file opened{file};
  check(file, opened);
  std::string text(max_secret_bytes + 1, '\0');
  std::size_t size = 0;
  for (ssize_t n = 1; n > 0 && size < text.size();
       size += static_cast<std::size_t>(n)) {
    n = ::read(opened.fd, text.data() + size, text.size() - size);
    if (n < 0)
      refuse(file, std::generic_category().message(errno));
  }
  text.resize(size);
  if (text.size() > max_secret_bytes)
    refuse(file,
           "it has more than " + std::to_string(max_secret_bytes) + " bytes");
  if (text.ends_with('\n'))
    text.pop_back();
  if (text.ends_with('\r'))
    text.pop_back();
  if (text.empty())
    refuse(file, "it is empty");
  return text;
}

std::string secret_from_environment() {
  const auto* secret = std::getenv("TROUPE_SECRET");
  const auto* file = std::getenv("TROUPE_SECRET_FILE");
  if (secret && file)
    throw std::invalid_argument{"TROUPE_SECRET and TROUPE_SECRET_FILE are both "
                                "set: set only one of them"};
  if (file)
    return read_secret(file);
  return secret ? secret : "";
}

std::shared_ptr<const credentials::certificates> tls_from_environment() {
  const auto variable = [](const char* name) -> std::string {
    const auto* text = std::getenv(name);
    return text ? text : "";
  };
  const credentials::certificates files{variable("TROUPE_TLS_CA"),
                                        variable("TROUPE_TLS_CERTIFICATE"),
                                        variable("TROUPE_TLS_KEY")};
  const auto count =
    !files.authority.empty() + !files.certificate.empty() + !files.key.empty();
  if (count != 0 && count != 3)
    throw std::invalid_argument(
      "TLS takes three PEM files, in TROUPE_TLS_CA, TROUPE_TLS_CERTIFICATE and "
      "TROUPE_TLS_KEY; set all of them, or none");
  return count == 0 ? nullptr
                    : std::make_shared<const credentials::certificates>(files);
}

credentials credentials_from_environment() {
  return {secret_from_environment(), tls_from_environment()};
}

} // namespace troupe::net
