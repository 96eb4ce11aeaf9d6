#pragma once

#include <filesystem>
#include <string>
#include <sys/stat.h>

/// Environment variable of an evaluator: the version of the file that was there
/// before the run. Empty: there was none. Not set: unknown.
inline constexpr auto earlier_version_variable = "TROUPE_EARLIER_VERSION";

/// Returns a text that identifies a version of a file. Empty: there is no such
/// file.
inline std::string version_of(const std::filesystem::path& file) {
  struct stat found {};
  if (::stat(file.c_str(), &found) != 0 || !S_ISREG(found.st_mode))
    return {};
  return std::to_string(found.st_dev) + "/" + std::to_string(found.st_ino) + "/"
         + std::to_string(found.st_mtim.tv_sec) + "."
         + std::to_string(found.st_mtim.tv_nsec) + "/"
         + std::to_string(found.st_size);
}
