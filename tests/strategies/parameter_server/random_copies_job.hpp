#pragma once

#include "troupe/strategies/parameter_server/copy_views.hpp"
#include "troupe/strategies/parameter_server/shard_copy.hpp"
#include "troupe/strategies/parameter_server/table_part.hpp"
#include "troupe/tests/strategies/random_job.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace troupe::parameter_server {

/// Copies of shards on servers, whose views `copy_views` decides, and clients
/// that send commands and reads, under random faults. Messages between copies,
/// and between clients and copies, are lost, late, repeated and reordered, and
/// links are cut. The connections of the chief to the servers keep messages in
/// order until it has lost the server. Servers die, or are lost for the chief
/// while they live and go on. Others join. As long as each shard has another
/// copy that is in sync, any server can be lost. Each command changes some rows
/// of a table, which is part of the state of its shard. The oracles:
///
///   exactly once  as for commands in random_server_job.hpp
///   tables        the copies in sync have the rows and slots of a table that
///                 was never restored from a snapshot, and go on as it does
///   no loss       no shard is given up, unless a server was lost when the
///   chief
///                 did not know of another loss yet, or had not replaced it
///   progress      all commands are answered when there are no faults any more,
///                 and then each shard has K copies in sync, which are equal,
///                 or as many as there are servers
///   balance       a server that joins gets copies, if a shard lacks some
class random_copies_job : public random_job {
public:
  explicit random_copies_job(std::uint64_t seed);

  std::string run() override;

private:
  struct copy {
    std::unique_ptr<shard_copy> machine;
    table_part table;
    std::vector<command_id> performed{};
    std::map<command_id, std::size_t> answers{};
  };
  struct server {
    bool is_alive = true, is_lost = false; ///< For the chief.
    std::vector<copy> copies;              ///< By shard.
    std::uint64_t next_arrival = 0;        ///< Of a message of the chief.
    std::uint64_t next_answer = 0;         ///< Arrival at the chief.
  };
  struct open_command {
    command what;
    std::size_t answered_before = 0; ///< Commands, when it was sent first.
  };
  /// The commands of a client at a shard.
  struct client_of_shard {
    std::uint64_t next = 0, next_read = 0;
    std::map<std::uint64_t, open_command> reads, open; ///< By number.
  };
  struct client {
    std::uint64_t left = 0;               ///< Commands to send.
    std::vector<std::uint64_t> primaries; ///< That it knows, by shard.
    std::map<std::uint32_t, client_of_shard> shards;
  };

  std::string state_of(std::uint64_t process) const override;
  void tick();
  void add_server();
  void react(const views_reaction& what);
  void to_server(std::uint64_t to, std::function<void(server&)> action);
  void enter(std::uint64_t at_server, const std::vector<shard_view>& views);
  void report(std::uint64_t from, std::uint64_t poll);
  void perform(std::uint64_t process, std::uint32_t s,
               const shard_reaction& effects);
  void issue(std::uint64_t id);
  void send(std::uint64_t id, std::uint32_t s, command what);
  void learn(std::uint64_t id);
  void on_read(std::uint64_t id, std::uint32_t s, std::uint64_t number,
               const std::vector<command_id>& read);
  bool can_spare(std::uint64_t process) const;
  void inject();
  bool is_done() const;
  bool is_settled() const;
  void check_table(std::uint32_t s, const copy& at);
  void check_end();

  std::uint32_t shards_ = 1, copies_ = 1;
  shard_options limits_;
  std::uint64_t unknown_losses_ = 0; ///< Of which the chief has not heard.
  bool had_double_loss_ = false, is_given_up_ = false;
  copy_views chief_;
  std::uint64_t next_name_ = 100;
  std::map<std::uint64_t, server> servers_;
  std::map<std::uint64_t, client> clients_;
  std::vector<std::vector<command_id>> performed_, answered_; ///< By shard.
  std::vector<std::map<command_id, std::size_t>> answers_;    ///< By shard.
};

} // namespace troupe::parameter_server
