#pragma once

#include "troupe/strategies/parameter_server/shard_copy.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace troupe::parameter_server {

/// What follows from an event.
struct views_reaction {
  /// `views()` is new. Each server gets all new views, in order.
  bool views_changed = false;
  /// Asks all servers for their positions, with the number `poll()`.
  bool asks_positions = false;
  /// Shards that have no copy with all acknowledged updates any more.
  std::vector<std::uint32_t> lost_shards;
};

/// Decides which servers have the copies of each shard, and which copy is the
/// primary. The process of the coordinator hosts it.
///
///   start    the primary of shard s is server s modulo their number, and the
///            next K - 1 servers are its backups
///   on server  a server without state has joined. A shard that has fewer than
///            K copies gets it as a backup
///   on server lost  a backup: the next view is without it. A primary: when a
///            backup says that it is in sync in the view, asked after the loss,
///            the next view makes it the primary
///            Another server, the one with the fewest copies, becomes a backup
///   on positions  what each copy of a server has
///   on timeout  asks again, unless all copies are known to be in sync
///   end      of a shard: its primary is lost, and all its backups that live
///            have entered the view, and say that they are not in sync. Or a
///            server is lost that was made the primary, and had not told the
///            others that they are in sync
///   faults   a server that was lost, but lives: its copies go on in their last
///            view. They acknowledge nothing (shard_copy.hpp), as the others
///            are in a newer one. It can come back under another name only
///
/// Each shard counts its own views. Servers are named by numbers that are never
/// used again.
class copy_views {
public:
  /// @param copies K, at least 1.
  copy_views(std::uint32_t shards, std::uint32_t copies)
    : max_copies_{copies}, shards_(shards) {}

  /// The first views. @pre there is a server, and none is named twice, unless
  /// each shard has one copy.
  views_reaction start(const std::vector<std::uint64_t>& servers);
  /// @pre after `start`; the name is new.
  views_reaction on_server(std::uint64_t server);
  /// No effect if there is no such server.
  views_reaction on_server_lost(std::uint64_t server);
  /// @param poll of the question that the server answers.
  /// @param positions by shard. An answer with another number is ignored.
  views_reaction on_positions(std::uint64_t server, std::uint64_t poll,
                              const std::vector<copy_position>& positions);
  views_reaction on_timeout();

  /// View of each shard. That of a shard without a primary that lives is the
  /// last one.
  std::vector<shard_view> views() const;
  /// Number of the last question for positions.
  std::uint64_t poll() const { return poll_; }
  /// True if a shard waits for a new primary.
  bool has_vacancy() const;
  /// True if each shard has as many copies as there can be, and all are in
  /// sync in its view, as far as they have said.
  bool is_settled() const;
  /// Number of copies that live and are in sync in their view, as far as they
  /// have said, by shard. The primary is one of them.
  std::vector<std::uint32_t> in_sync() const;
  bool is_lost(std::uint32_t shard) const { return shards_[shard].is_lost; }

private:
  struct shard {
    shard_view view;
    std::map<std::uint64_t, copy_position> positions; ///< In `view`.
    /// The primary is lost. Answers to `first_poll` and later questions count.
    bool is_vacant = false;
    std::uint64_t first_poll = 0;
    std::map<std::uint64_t, std::uint64_t> answered; ///< Last poll, by server.
    bool is_lost = false;
  };

  bool lives(std::uint64_t server) const { return servers_.contains(server); }
  std::uint64_t copies_of(std::uint64_t server) const;
  std::uint32_t in_sync_of(const shard& x) const;
  void begin_view(shard& of, shard_view next);
  void fill(shard_view& view) const;
  void update(std::uint32_t index, views_reaction& out);
  void promote(std::uint32_t index, views_reaction& out);

  std::uint32_t max_copies_;
  std::set<std::uint64_t> servers_; ///< That live.
  std::vector<shard> shards_;
  std::uint64_t poll_ = 0;
};

} // namespace troupe::parameter_server
