#pragma once

#include "troupe/actors/flight/flight_recorder.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace troupe {

/// What a process writes to a file when its job fails (docs/formats.md).
struct flight_record {
  flight_identity identity;
  std::string error;                ///< Why the job has failed. Empty: unknown.
  std::int64_t written_ns = 0;      ///< Time at which the record was made.
  std::uint64_t recorded = 0;       ///< Events of the process, also older ones.
  std::vector<flight_event> events; ///< The last events, oldest first.

  friend bool operator==(const flight_record&, const flight_record&) = default;
};

/// Copies the events of a recorder.
flight_record take_record(const flight_recorder& recorder,
                          const std::string& error);

/// Maximum size in bytes of an encoded record.
inline constexpr std::size_t max_flight_record_bytes = std::size_t{64} << 20;

std::vector<std::byte> encode_flight_record(const flight_record& record);

/// Decodes a record from an untrusted source. An event of an unknown kind keeps
/// its number. Times and numbers may be anything.
/// @errors throws std::invalid_argument with the reason, such as "its checksum
///         is wrong".
/// @cost allocates memory in proportion to the bytes.
flight_record decode_flight_record(std::span<const std::byte> bytes);

} // namespace troupe
