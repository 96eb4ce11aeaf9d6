#include "troupe/apps/troupe/launcher/flight_directory.hpp"

#include "troupe/training/support/flight_file.hpp"

#include <cstdlib>
#include <system_error>

void set_flight_directory(const std::filesystem::path& directory) {
  std::error_code ignored; // then children resolve the path themselves
  const auto absolute =
    std::filesystem::absolute(
      directory.empty() ? std::filesystem::path{"."} : directory, ignored)
      .lexically_normal();
  ::setenv("TROUPE_FLIGHT_DIR", absolute.c_str(), 0);
}

void clean_flight_directory() {
  const auto* const directory = std::getenv("TROUPE_FLIGHT_DIR");
  if (directory && *directory)
    troupe::remove_unfinished_flight_files(directory);
}
