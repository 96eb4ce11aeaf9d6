#pragma once

#include "troupe/actors/shard/backup_sender.hpp"
#include "troupe/actors/shard/host_connector.hpp"
#include "troupe/actors/shard/shard_host_internal_actor.hpp"
#include "troupe/actors/shard/shard_store.hpp"
#include "troupe/strategies/parameter_server/shard_copy.hpp"

#include <caf/actor.hpp>
#include <caf/actor_addr.hpp>
#include <caf/actor_clock.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <caf/typed_response_promise.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

/// Spawn arguments of a shard host.
struct shard_host_config {
  std::uint64_t self = 0; ///< Incarnation of the process.
  std::uint32_t shards = 1;
  host_connector connect;
  /// Of all parts of a shard. What is in its log may exceed it. Zero: no limit.
  std::uint64_t max_bytes = 0;
  /// For tests of faults: called before the request of a client is answered.
  /// Empty: no effect.
  std::function<void()> before_answer{};
};

/// State of a shard host: the copies of all shards in one process. It hosts
/// `parameter_server::shard_copy` for each shard, and sends its messages to
/// other processes (`backup_sender`). The host of a primary puts a rejection
/// into the log in place of a command that would exceed the limit of memory, or
/// begin a training of what the shard lacks, so all copies answer it in the
/// same way. It refuses a push whose gradient does not fit.
struct shard_host_state {
  static inline const char* name = "shard host";

  explicit shard_host_state(shard_host_internal_actor::pointer self)
    : self{self} {}

  using answer_promise = caf::typed_response_promise<shard_answer, tensors>;
  using push_promise = caf::typed_response_promise<shard_pushed>;
  using pull_promise =
    caf::typed_response_promise<parameter_server::pulled, tensors>;
  using decision_promise =
    caf::typed_response_promise<parameter_server::decided>;
  using query_promise =
    caf::typed_response_promise<parameter_server::last_decision>;

  void configure(shard_host_config config);
  answer_promise request(const shard_request& x, const tensors& operands);
  push_promise push(const shard_push& x, const tensors& operands);
  pull_promise pull(const shard_pull& x, const tensors& rows);
  decision_promise decide(const shard_decision& x);
  query_promise query(const shard_decision_query& x);
  caf::typed_response_promise<parameter_server::serving>
  accept(const shard_accepted& x);
  caf::result<copy_table> next_table(std::uint64_t version);
  copy_report enter(const copy_table& next, std::uint64_t poll);
  parameter_server::stored on(const copy_record& x, const tensors& operands);
  parameter_server::stored on(const copy_snapshot& x, const tensors& beside);
  parameter_server::stored on(const copy_inquiry& x);
  parameter_server::stored on(const copy_in_sync& x);
  void on_link(const host_link& x);
  void on_down(const caf::actor_addr& source);
  void on_interval();

private:
  using id = parameter_server::command_id;
  struct open_pull {
    shard_pull asked;
    tensors rows;
    pull_promise promise;
  };
  struct copy {
    parameter_server::shard_copy machine;
    shard_store store;
    std::map<id, answer_promise> commands{}, reads{}; ///< Not answered.
    std::map<parameter_server::push_id, push_promise> pushes{};
    std::map<std::uint32_t, open_pull> pulls{}; ///< By replica.
    /// By training and step.
    std::map<std::pair<std::uint64_t, std::uint64_t>, decision_promise>
      decisions{};
    /// By training and chief.
    std::map<std::pair<std::uint64_t, std::uint64_t>, query_promise> queries{};
    std::map<std::uint64_t,
             caf::typed_response_promise<parameter_server::serving>>
      accepted{}; ///< By worker.
  };
  void perform(std::uint32_t shard, parameter_server::shard_reaction&& effects);
  void perform(std::uint32_t shard, copy& at,
               parameter_server::shard_effect& effect);
  void perform(std::uint32_t shard, copy& at, parameter_server::apply& x);
  void perform(std::uint32_t shard, copy& at,
               parameter_server::begin_training& x);
  void perform(std::uint32_t shard, copy& at,
               parameter_server::apply_command& x);
  void perform(std::uint32_t shard, copy& at,
               parameter_server::forget_client& x);
  void perform(std::uint32_t shard, copy& at, parameter_server::drop_state& x);
  void perform(std::uint32_t shard, copy& at,
               parameter_server::install_snapshot& x);
  void perform(std::uint32_t shard, copy& at, parameter_server::answer_push& x);
  void perform(std::uint32_t shard, copy& at, parameter_server::answer_pull& x);
  void perform(std::uint32_t shard, copy& at,
               parameter_server::answer_decision& x);
  void perform(std::uint32_t shard, copy& at,
               parameter_server::answer_decision_query& x);
  void perform(std::uint32_t shard, copy& at,
               parameter_server::answer_command& x);
  void perform(std::uint32_t shard, copy& at, parameter_server::answer_read& x);
  void perform(std::uint32_t shard, copy& at,
               parameter_server::refuse_command& x);
  void perform(std::uint32_t shard, copy& at,
               parameter_server::send_serving& x);
  void perform(std::uint32_t shard, copy& at, parameter_server::send_stored& x);
  void perform(std::uint32_t shard, copy& at, parameter_server::send_record& x);
  void perform(std::uint32_t shard, copy& at,
               parameter_server::send_snapshot& x);
  void perform(std::uint32_t shard, copy& at,
               parameter_server::send_inquire& x);
  void perform(std::uint32_t shard, copy& at,
               parameter_server::send_in_sync& x);
  void perform(std::uint32_t shard, copy& at,
               parameter_server::protocol_error& x);
  void answer(answer_promise& to, shard_answer&& x, tensors&& beside) const;
  void refuse(std::map<id, answer_promise>& waiting, const id& which,
              shard_outcome why);
  void refuse_all(copy& at);
  static bool has_ended(const copy& at, std::uint64_t training);
  void ignore_pulls(copy& at) const;
  void ignore_decisions(copy& at) const;
  void answer_queries(copy& at, const parameter_server::last_decision& x) const;
  copy* find(std::uint32_t shard);
  parameter_server::payload content_for_log(const copy& at,
                                            const shard_request& x,
                                            const tensors& operands) const;

  shard_host_internal_actor::pointer self;
  shard_host_config config_;
  std::vector<copy> copies_; ///< By shard.
  copy_table table_;
  std::optional<backup_sender> backups_; ///< None: not configured yet.
  /// Requests for a newer table, with their times, oldest first.
  std::deque<std::pair<caf::actor_clock::time_point,
                       caf::typed_response_promise<copy_table>>>
    awaited_tables_;
  /// Answer to the message that is handled.
  parameter_server::stored stored_;
};

/// Has the copies of the shards of a job in this process.
shard_host_internal_actor::behavior_type
shard_host(shard_host_internal_actor::stateful_pointer<shard_host_state> self,
           shard_host_config config);

/// Gives a client, or another process with copies, access to a shard host: it
/// passes each message on, and ends with the host.
shard_host_actor::behavior_type
shard_host_access(shard_host_actor::pointer self,
                  const shard_host_actor& target);

} // namespace troupe
