#include "troupe/training/support/flight_file.hpp"

#include "troupe/training/support/atomic_file.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <vector>

namespace troupe {

namespace {

/// Largest part of a job's name in a file name.
constexpr std::size_t max_name_bytes = 64;

constexpr std::string_view name_begin = "troupe-flight-";

/// Size of the parts of a file in front of its content.
constexpr std::size_t max_front_bytes = 64;

[[noreturn]] void refuse(const std::filesystem::path& path,
                         const std::string& why) {
  throw std::runtime_error(path.string() + ": " + why);
}

} // namespace

std::string flight_file_name(const flight_identity& identity) {
  auto job = identity.job.substr(0, max_name_bytes);
  std::ranges::replace_if(
    job,
    [](unsigned char c) {
      return c > 126 || !(std::isalnum(c) || c == '.' || c == '_' || c == '-');
    },
    '_');
  char number[48];
  std::snprintf(number, sizeof number, "-%u-%016" PRIx64 ".bin", identity.task,
                identity.incarnation);
  return std::string{name_begin} + job + number;
}

std::filesystem::path write_flight_file(const std::filesystem::path& directory,
                                        const flight_record& record) {
  const auto path = directory / flight_file_name(record.identity);
  atomic_file file{path};
  file.write(encode_flight_record(record));
  file.commit();
  return path;
}

void remove_unfinished_flight_files(const std::filesystem::path& directory) {
  remove_abandoned_files(directory, name_begin);
}

flight_record read_flight_file(const std::filesystem::path& path) {
  std::ifstream in{path, std::ios::binary};
  if (!in)
    refuse(path, "it cannot be read (" + std::string{std::strerror(errno)}
                   + "); give a file that a failed job has written");
  // The size of a pipe is not known, so the content is read in pieces.
  std::vector<std::byte> bytes;
  char piece[65536];
  while (in.read(piece, sizeof piece) || in.gcount() > 0) {
    const auto* const begin = reinterpret_cast<const std::byte*>(piece);
    bytes.insert(bytes.end(), begin, begin + in.gcount());
    if (bytes.size() > max_flight_record_bytes + max_front_bytes)
      refuse(path, "it has more than " + std::to_string(max_flight_record_bytes)
                     + " bytes, which no record of a flight recorder has");
  }
  if (in.bad() || (bytes.empty() && !in.eof()))
    refuse(path, "it cannot be read");
  try {
    return decode_flight_record(bytes);
  } catch (const std::invalid_argument& e) {
    refuse(path, e.what());
  }
}

} // namespace troupe
