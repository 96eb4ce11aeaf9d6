#pragma once

#include "troupe/actors/core/error_code_caf.hpp"
#include "troupe/actors/protocol/atoms.hpp"
#include "troupe/actors/protocol/shard_messages.hpp"
#include "troupe/strategies/coordinator/closure_effects.hpp"
#include "troupe/strategies/parameter_server/copy_views.hpp"
#include "troupe/strategies/parameter_server/part_image.hpp"
#include "troupe/strategies/parameter_server/table_image.hpp"

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/typed_actor.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

// Messages of the copies of shards: from clients, between copies, and from the
// process of the coordinator, which decides the views.

namespace troupe {

// -- clients ------------------------------------------------------------------

/// The requests to a shard, as contents of commands. The numbers are a wire
/// format: append, never reuse.
enum class shard_request_kind : std::uint8_t {
  new_part = 0,
  new_optimizer = 1,
  change = 2, ///< `change_list`
  store = 3,  ///< `execution_effects`
  decide = 4, ///< `coordinator::decision`
  pull = 5,   ///< `part_pull`; this and those to `status` are reads.
  pull_optimizer = 6,
  table = 7,
  status = 8,
  /// In the log only: stands for a command that the primary has rejected. The
  /// body is the reason, as text.
  rejected = 9,
  remove = 10, ///< `removal`
  begin = 11,  ///< `new_training`, of a command that begins a training
};
constexpr bool is_read(shard_request_kind x) {
  return x >= shard_request_kind::pull && x <= shard_request_kind::status;
}

/// A request to one shard, as a command. Its tensors travel beside it.
struct shard_request {
  std::uint32_t shard = 0; ///< Index.
  parameter_server::command command;
  shard_request_kind kind{};
  std::vector<std::uint8_t> body; ///< The request, encoded.
  auto fields() { return std::tie(shard, command, kind, body); }
};

/// What became of a request. The numbers are a wire format: append, never
/// reuse.
enum class shard_outcome : std::uint8_t {
  done = 0,
  invalid = 1,     ///< It names what does not exist or does not fit.
  not_serving = 2, ///< It can be sent to another copy, or later.
  busy = 3,        ///< It can be sent again.
  forgotten = 4,   ///< The shard has forgotten the client.
};

/// Answer to `shard_request`. A tensor that it contains travels beside it.
struct shard_answer {
  shard_outcome outcome{};
  std::vector<std::uint8_t> body; ///< The answer, encoded.
  std::string problem;            ///< Of `invalid`.
  auto fields() { return std::tie(outcome, body, problem); }
};

// -- workers and the chief ----------------------------------------------------

// An answer of view 0: the request was ignored, and can be sent again.

/// A contribution of a replica. Beside it: the gradient of all elements; or the
/// numbers of rows, [m] int64, and the gradient of these rows; or nothing, if
/// the replica has no gradient for this step.
struct shard_push {
  std::uint32_t shard = 0;
  std::uint64_t worker = 0; ///< Random number of the sender.
  parameter_server::push push;
  auto fields() { return std::tie(shard, worker, push); }
};

struct shard_pushed {
  parameter_server::pushed pushed;
  std::string problem; ///< Of `unfit_gradient`.
  auto fields() { return std::tie(pushed, problem); }
};

/// Asks for the values of parts for a step of a replica. Beside it: the numbers
/// of rows, [m] int64, of each part of which only some rows are wanted.
struct shard_pull {
  std::uint32_t shard = 0;
  std::uint64_t worker = 0; ///< Random number of the sender.
  parameter_server::pull pull;
  std::vector<std::uint8_t> has_rows; ///< By part of the pull: 0 or 1.
  auto fields() { return std::tie(shard, worker, pull, has_rows); }
};

struct shard_decision {
  std::uint32_t shard = 0;
  parameter_server::decision decision;
  auto fields() { return std::tie(shard, decision); }
};

struct shard_decision_query {
  std::uint32_t shard = 0;
  parameter_server::decision_query query;
  auto fields() { return std::tie(shard, query); }
};

struct shard_accepted {
  std::uint32_t shard = 0;
  parameter_server::accepted accepted;
  auto fields() { return std::tie(shard, accepted); }
};

// -- views --------------------------------------------------------------------

/// The copies of a shard in its view (`parameter_server::shard_view`).
struct shard_copies {
  std::uint64_t view_id = 0, term = 0, previous_term = 0;
  std::uint64_t primary = 0;
  std::vector<std::uint64_t> backups; ///< Ascending.
  bool is_lost = false;               ///< No copy has its state any more.
  auto fields() {
    return std::tie(view_id, term, previous_term, primary, backups, is_lost);
  }
};

/// A process that can have copies of shards.
struct server_address {
  std::uint64_t server = 0; ///< Its incarnation.
  std::string address;      ///< Of its node, "host:port".
  auto fields() { return std::tie(server, address); }
};

/// All copies of a job.
struct copy_table {
  /// Counted by the process of the coordinator. Zero: there is none yet.
  std::uint64_t version = 0;
  std::vector<shard_copies> shards;
  std::vector<server_address> servers; ///< That live, by number, ascending.
  auto fields() { return std::tie(version, shards, servers); }
};

/// What the copies of a server have, by shard.
struct copy_report {
  /// `copy_views::poll` of the question.
  std::uint64_t poll = 0;
  std::vector<std::uint64_t> view_ids, terms, sequences;
  std::vector<std::uint8_t> is_in_sync; ///< 0 or 1.
  auto fields() {
    return std::tie(poll, view_ids, terms, sequences, is_in_sync);
  }
};

// -- copies -------------------------------------------------------------------

/// A record of the log of a shard, with the content of a command. Beside the
/// message: the tensors of the content, or the gradient of a push.
struct copy_record {
  std::uint32_t shard = 0;
  parameter_server::record record;
  shard_request_kind kind{};
  std::vector<std::uint8_t> body;
  auto fields() { return std::tie(shard, record, kind, body); }
};

/// An answer to a command that a shard keeps for a client that may repeat it.
struct kept_answer {
  parameter_server::command_id id;
  shard_answer answer;
  auto fields() { return std::tie(id, answer); }
};

/// What a shard holds, for a snapshot. Its tensors travel beside it: those of
/// each part (`parameter_server::part_image`, `table_image`), then the operands
/// of `waiting`.
struct shard_image {
  std::uint64_t updates = 0; ///< Changes that took place.
  std::vector<new_part> parts{};
  /// Of the parts that are no tables, in their order.
  std::vector<parameter_server::part_image> images{};
  /// Of the parts that are tables, in their order.
  std::vector<parameter_server::table_image> tables{};
  std::vector<new_optimizer> optimizers{}; ///< By number, ascending.
  coordinator::effects_image effects{};
  std::vector<change_list> waiting{};    ///< Of `effects.waiting`.
  std::vector<std::uint32_t> operands{}; ///< Their numbers of tensors.
  std::vector<kept_answer> answers{};    ///< By id, ascending.
  std::uint32_t optimizer = 0;           ///< Of the training.
  auto fields() {
    return std::tie(updates, parts, images, tables, optimizers, effects,
                    waiting, operands, answers, optimizer);
  }
};

/// A snapshot of a shard. Beside it: the gradients that wait for a decision,
/// and then the tensors of the image.
struct copy_snapshot {
  std::uint32_t shard = 0;
  parameter_server::snapshot snapshot;
  shard_image image;
  /// By gradient: its number of tensors.
  std::vector<std::uint32_t> operands{};
  auto fields() { return std::tie(shard, snapshot, image, operands); }
};

struct copy_inquiry {
  std::uint32_t shard = 0;
  parameter_server::inquire inquire;
  auto fields() { return std::tie(shard, inquire); }
};

struct copy_in_sync {
  std::uint32_t shard = 0;
  parameter_server::in_sync in_sync;
  auto fields() { return std::tie(shard, in_sync); }
};

/// The messages that the copies of a process receive. `stored` of view 0: the
/// message was ignored.
using shard_host_actor = caf::typed_actor<
  // Performs a request of a client.
  caf::replies_to<shard_request, tensors>::with<shard_answer, tensors>,
  // From a worker. The values of the parts are beside `pulled`.
  caf::replies_to<shard_push, tensors>::with<shard_pushed>,
  caf::replies_to<shard_pull, tensors>::with<parameter_server::pulled, tensors>,
  caf::replies_to<shard_accepted>::with<parameter_server::serving>,
  // From the chief.
  caf::replies_to<shard_decision>::with<parameter_server::decided>,
  caf::replies_to<shard_decision_query>::with<parameter_server::last_decision>,
  // Returns the table as soon as its version is above a number.
  caf::replies_to<atom::next, std::uint64_t>::with<copy_table>,
  // From the process of the coordinator: enters the views, and returns what the
  // copies have. The number is that of the question.
  caf::replies_to<copy_table, std::uint64_t>::with<copy_report>,
  // From the primary of a shard.
  caf::replies_to<copy_record, tensors>::with<parameter_server::stored>,
  caf::replies_to<copy_snapshot, tensors>::with<parameter_server::stored>,
  caf::replies_to<copy_inquiry>::with<parameter_server::stored>,
  caf::replies_to<copy_in_sync>::with<parameter_server::stored>>;

/// A connection to the copies of another process, or why there is none.
struct host_link {
  std::string address;
  std::uint64_t server = 0; ///< Incarnation of the process.
  shard_host_actor host;    ///< Null: there is a problem.
  /// The connection ends when the last copy is destroyed.
  std::shared_ptr<const void> connection{};
  std::string problem{};
  bool is_refused = false; ///< The problem is an answer of the process.
};

} // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::host_link)
