#pragma once

#include <cstdint>
#include <tuple>

namespace troupe::parameter_server {

/// How contributions change a part of the parameters. The numbers are a wire
/// format: append, never reuse.
enum class consistency_kind : std::uint8_t {
  /// Each contribution is an update of its own.
  asynchronous = 0,
  /// As `asynchronous`, but a replica does not read a part that lacks old
  /// contributions (stale synchronous parallel; Ho et al. 2013).
  bounded = 1,
  /// The contributions to a step are added, and are one update (with backup
  /// workers; Chen et al. 2016).
  synchronous = 2,
};

/// The rule by which a part is read and updated. A training has one for each
/// part.
struct consistency {
  consistency_kind kind = consistency_kind::asynchronous;
  /// `bounded`: what a replica reads for step c contains the contributions of
  /// all replicas to all steps below c - max_staleness. Otherwise zero.
  std::uint32_t max_staleness = 0;
  /// `synchronous`: contributions to a step that are not waited for. The
  /// contributions that come too late are dropped. Otherwise zero.
  std::uint32_t backup_workers = 0;

  auto fields() { return std::tie(kind, max_staleness, backup_workers); }
  friend bool operator==(const consistency&, const consistency&) = default;
};

} // namespace troupe::parameter_server
