#pragma once

#include "troupe/net/io/stream.hpp"
#include "troupe/strategies/membership/messages.hpp"

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// Purposes of the lanes between two processes of a job, by number of the lane.
/// The first are those of the collectives, by `collective::lane_id`.
inline constexpr std::array lane_purposes{"contributions", "results"};

/// The authenticated streams between a process and the other members of a view
/// from which no lanes were made yet. A member has one stream for each purpose.
/// The caller locks the table.
class stream_table {
public:
  struct stream_id {
    std::uint64_t view_id = 0; ///< Id of the view for which it was opened.
    std::uint32_t task = 0;    ///< Task of the other process.
    std::uint64_t incarnation = 0;
    std::string purpose;
    friend auto operator<=>(const stream_id&, const stream_id&) = default;
  };

  /// Takes a stream, in the place of an earlier one with this id.
  void add(const stream_id& id, std::unique_ptr<net::stream> stream);
  /// True if there is a stream to the member for each purpose.
  bool has_all(std::uint64_t view_id, const membership::member& member) const;
  /// Returns the streams to the member, by purpose.
  /// @pre `has_all` returns true.
  std::vector<std::unique_ptr<net::stream>>
  take_all(std::uint64_t view_id, const membership::member& member);
  std::size_t size() const { return streams_.size(); }

  /// A stream to the member of a task could not be opened.
  void note_failure(std::uint64_t view_id, std::uint32_t task,
                    const std::string& why);
  bool has_failed(std::uint64_t view_id, std::uint32_t task) const {
    return failures_.contains({view_id, task});
  }
  /// Returns why a stream of a view could not be opened. Empty: none has
  /// failed.
  std::string failure(std::uint64_t view_id) const;

  /// Forgets the streams and failures of the views before this one.
  void forget_before(std::uint64_t view_id);

private:
  std::map<stream_id, std::unique_ptr<net::stream>> streams_;
  /// By id of the view and task: why the streams could not be opened.
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::string> failures_;
};

} // namespace troupe
