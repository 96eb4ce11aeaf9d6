#include "troupe/apps/troupe/launcher/private_directory.hpp"

#include "troupe/net/io/exclusive_file.hpp"
#include "troupe/net/io/temporary_folder.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <system_error>

namespace fs = std::filesystem;

private_directory::private_directory() {
  const auto folder = troupe::net::temporary_folder();
  auto name = (folder / "troupe-run-XXXXXX").string();
  if (!::mkdtemp(name.data()))
    throw std::runtime_error("cannot create a directory for the files of a "
                             "run in \""
                             + folder.string() + "\": " + std::strerror(errno));
  path_ = name;
}

private_directory::~private_directory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string private_directory::write(const std::string& name,
                                     const std::string& text) const {
  troupe::net::write_new_file(path_ / name, text,
                              troupe::net::file_access::owner);
  return (path_ / name).string();
}
