#pragma once

// CAF type ids of all structs and handles that are sent between actors. Between
// processes, they are sent in the frames of docs/wire.md, not by CAF.

#include "troupe/actors/core/error_code_caf.hpp"
#include "troupe/actors/protocol/chief_actor.hpp"
#include "troupe/actors/protocol/closure_actors.hpp"
#include "troupe/actors/protocol/job_status.hpp"
#include "troupe/actors/protocol/local_agent_actor.hpp"
#include "troupe/actors/protocol/node_actor.hpp"
#include "troupe/actors/protocol/replica_actor.hpp"
#include "troupe/actors/protocol/shard_actor.hpp"
#include "troupe/actors/protocol/shard_copy_actor.hpp"
#include "troupe/actors/protocol/status_actor.hpp"
#include "troupe/actors/protocol/vacancy_actor.hpp"

CAF_BEGIN_TYPE_ID_BLOCK(troupe, caf::id_block::troupe_atoms::end)

  CAF_ADD_TYPE_ID(troupe, (troupe::step_metrics))
  CAF_ADD_TYPE_ID(troupe, (troupe::commit_record))
  CAF_ADD_TYPE_ID(troupe, (troupe::role_wait))
  CAF_ADD_TYPE_ID(troupe, (troupe::requested_run))
  CAF_ADD_TYPE_ID(troupe, (troupe::failure_report))
  CAF_ADD_TYPE_ID(troupe, (troupe::tree::slice_key))
  CAF_ADD_TYPE_ID(troupe, (troupe::tree::contribution))
  CAF_ADD_TYPE_ID(troupe, (troupe::tree::reduced_slice))
  CAF_ADD_TYPE_ID(troupe, (troupe::tree::gather_contribution))
  CAF_ADD_TYPE_ID(troupe, (troupe::step_commit::configure))
  CAF_ADD_TYPE_ID(troupe, (troupe::step_commit::start_steps))
  CAF_ADD_TYPE_ID(troupe, (troupe::step_commit::grant))
  CAF_ADD_TYPE_ID(troupe, (troupe::step_commit::probe))
  CAF_ADD_TYPE_ID(troupe, (troupe::step_commit::configured))
  CAF_ADD_TYPE_ID(troupe, (troupe::step_commit::step_done))
  CAF_ADD_TYPE_ID(troupe, (troupe::step_commit::failed))
  CAF_ADD_TYPE_ID(troupe, (troupe::step_commit::wait_report))
  CAF_ADD_TYPE_ID(troupe, (troupe::member_status))
  CAF_ADD_TYPE_ID(troupe, (troupe::missing_role))
  CAF_ADD_TYPE_ID(troupe, (troupe::decision_phase))
  CAF_ADD_TYPE_ID(troupe, (troupe::decision))
  CAF_ADD_TYPE_ID(troupe, (troupe::job_status))
  CAF_ADD_TYPE_ID(troupe, (troupe::role_fingerprint))
  CAF_ADD_TYPE_ID(troupe, (troupe::spawn_request))
  CAF_ADD_TYPE_ID(troupe, (troupe::node_info))
  CAF_ADD_TYPE_ID(troupe, (troupe::run_barrier::join))
  CAF_ADD_TYPE_ID(troupe, (troupe::run_barrier::stop))
  CAF_ADD_TYPE_ID(troupe, (troupe::owner_batch))
  CAF_ADD_TYPE_ID(troupe, (troupe::commit_batch))
  CAF_ADD_TYPE_ID(troupe, (troupe::run_completed))
  CAF_ADD_TYPE_ID(troupe, (troupe::run_aborted))
  CAF_ADD_TYPE_ID(troupe, (troupe::commit_ack))
  CAF_ADD_TYPE_ID(troupe, (troupe::membership::member))
  CAF_ADD_TYPE_ID(troupe, (troupe::membership::view))
  CAF_ADD_TYPE_ID(troupe, (troupe::membership::vacancies))
  CAF_ADD_TYPE_ID(troupe, (troupe::new_part))
  CAF_ADD_TYPE_ID(troupe, (troupe::part_table))
  CAF_ADD_TYPE_ID(troupe, (troupe::new_optimizer))
  CAF_ADD_TYPE_ID(troupe, (troupe::change_list))
  CAF_ADD_TYPE_ID(troupe, (troupe::part_pull))
  CAF_ADD_TYPE_ID(troupe, (troupe::optimizer_pull))
  CAF_ADD_TYPE_ID(troupe, (troupe::execution_effects))
  CAF_ADD_TYPE_ID(troupe, (troupe::shard_status))
  CAF_ADD_TYPE_ID(troupe, (troupe::coordinator::execution))
  CAF_ADD_TYPE_ID(troupe, (troupe::coordinator::run))
  CAF_ADD_TYPE_ID(troupe, (troupe::coordinator::cancel))
  CAF_ADD_TYPE_ID(troupe, (troupe::coordinator::ended))
  CAF_ADD_TYPE_ID(troupe, (troupe::coordinator::failed))
  CAF_ADD_TYPE_ID(troupe, (troupe::coordinator::stopped))
  CAF_ADD_TYPE_ID(troupe, (troupe::coordinator::decision))
  CAF_ADD_TYPE_ID(troupe, (troupe::coordinator::decided))
  CAF_ADD_TYPE_ID(troupe, (troupe::replica_owner_actor))
  CAF_ADD_TYPE_ID(troupe, (troupe::slice_reducer_actor))
  CAF_ADD_TYPE_ID(troupe, (troupe::replica_actor))
  CAF_ADD_TYPE_ID(troupe, (troupe::chief_actor))
  CAF_ADD_TYPE_ID(troupe, (troupe::chief_remote_actor))
  CAF_ADD_TYPE_ID(troupe, (troupe::run_client_actor))
  CAF_ADD_TYPE_ID(troupe, (troupe::local_agent_actor))
  CAF_ADD_TYPE_ID(troupe, (troupe::shard_request))
  CAF_ADD_TYPE_ID(troupe, (troupe::shard_answer))
  CAF_ADD_TYPE_ID(troupe, (troupe::copy_table))
  CAF_ADD_TYPE_ID(troupe, (troupe::copy_report))
  CAF_ADD_TYPE_ID(troupe, (troupe::copy_record))
  CAF_ADD_TYPE_ID(troupe, (troupe::copy_snapshot))
  CAF_ADD_TYPE_ID(troupe, (troupe::copy_inquiry))
  CAF_ADD_TYPE_ID(troupe, (troupe::copy_in_sync))
  CAF_ADD_TYPE_ID(troupe, (troupe::parameter_server::stored))

CAF_END_TYPE_ID_BLOCK(troupe)
