#pragma once

#include "troupe/strategies/parameter_server/messages.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace troupe::parameter_server {

/// Limits of `client_sessions`.
struct client_limits {
  std::size_t max_clients = 4096; ///< At least 1.
  /// Maximum difference between the number of a command and `answered_below`.
  std::uint64_t max_open_commands = 4096;
};

/// Which commands of each client have taken effect at a shard. All copies of
/// the shard add the same commands in the same order, so they remember and
/// forget the same ones.
///
///   cost  an element of a set for each command that has taken effect and that
///         its client may repeat. The sessions of `client_limits::max_clients`
///         clients; one more makes the shard forget the client whose last
///         command is the oldest. A later command of that client is rejected,
///         unless it is among the first of the client
class client_sessions {
public:
  explicit client_sessions(const client_limits& limits) : limits_{limits} {}

  enum class state {
    is_new, ///< It can be added.
    done,   ///< It has taken effect.
    /// Its client needs no answer, or was forgotten.
    forgotten,
    ahead, ///< Its client has too many open commands.
  };
  state find(const command& x) const;

  /// A command takes effect.
  /// @pre `find(x)` is `is_new`.
  /// @param sequence of its record, which ascends.
  /// @returns the clients that are forgotten.
  std::vector<std::uint64_t> add(const command& x, std::uint64_t sequence);

  void clear() { clients_.clear(); }
  std::size_t clients() const { return clients_.size(); }

  std::vector<client_session> save() const;
  /// Takes what another copy has saved.
  /// @param sequence of the last record of that copy.
  /// @returns false: it is impossible, and nothing has changed.
  bool restore(const std::vector<client_session>& from, std::uint64_t sequence);

private:
  struct session {
    std::uint64_t answered_below = 0;
    std::uint64_t last_record = 0;
    std::set<std::uint64_t> done; ///< Not below `answered_below`.
  };

  client_limits limits_;
  std::map<std::uint64_t, session> clients_;
};

} // namespace troupe::parameter_server
