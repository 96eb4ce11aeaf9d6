#include "troupe/net/io/temporary_folder.hpp"

#include "troupe/net/base/text.hpp"

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <system_error>

namespace troupe::net {

namespace fs = std::filesystem;

fs::path temporary_folder() {
  std::error_code problem;
  auto found = fs::temp_directory_path(problem);
  if (!problem)
    return found;
  for (const auto* name : {"TMPDIR", "TMP", "TEMP", "TEMPDIR"})
    if (const auto* const value = std::getenv(name))
      throw std::runtime_error(
        std::string{name} + " is \"" + printable(value, max_sentence_bytes)
        + "\", which is no folder that this process can use ("
        + problem.message() + "); set it to a folder for temporary files, or "
        + "unset it");
  throw std::runtime_error("/tmp is no folder that this process can use ("
                           + problem.message()
                           + "); set TMPDIR to a folder for temporary files");
}

} // namespace troupe::net
