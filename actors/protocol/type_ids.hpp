#pragma once

// CAF type ids of all structs and handles that are sent between actors. Between
// processes they are sent in frames (docs/wire.md) and not by CAF.

#include "troupe/actors/core/error_code_caf.hpp"
#include "troupe/actors/protocol/chief_actor.hpp"
#include "troupe/actors/protocol/job_status.hpp"
#include "troupe/actors/protocol/local_agent_actor.hpp"
#include "troupe/actors/protocol/node_actor.hpp"
#include "troupe/actors/protocol/replica_actor.hpp"

CAF_BEGIN_TYPE_ID_BLOCK(troupe, caf::id_block::troupe_atoms::end)

  CAF_ADD_TYPE_ID(troupe, (troupe::step_report))
  CAF_ADD_TYPE_ID(troupe, (troupe::commit_record))
  CAF_ADD_TYPE_ID(troupe, (troupe::tree::stamp))
  CAF_ADD_TYPE_ID(troupe, (troupe::tree::part))
  CAF_ADD_TYPE_ID(troupe, (troupe::tree::sum))
  CAF_ADD_TYPE_ID(troupe, (troupe::tree::share))
  CAF_ADD_TYPE_ID(troupe, (troupe::commit::seat))
  CAF_ADD_TYPE_ID(troupe, (troupe::commit::order))
  CAF_ADD_TYPE_ID(troupe, (troupe::commit::grant))
  CAF_ADD_TYPE_ID(troupe, (troupe::commit::probe))
  CAF_ADD_TYPE_ID(troupe, (troupe::commit::seated))
  CAF_ADD_TYPE_ID(troupe, (troupe::commit::report))
  CAF_ADD_TYPE_ID(troupe, (troupe::commit::failed))
  CAF_ADD_TYPE_ID(troupe, (troupe::commit::blame))
  CAF_ADD_TYPE_ID(troupe, (troupe::member_status))
  CAF_ADD_TYPE_ID(troupe, (troupe::job_status))
  CAF_ADD_TYPE_ID(troupe, (troupe::role_form))
  CAF_ADD_TYPE_ID(troupe, (troupe::spawn_order))
  CAF_ADD_TYPE_ID(troupe, (troupe::node_info))
  CAF_ADD_TYPE_ID(troupe, (troupe::muster::join))
  CAF_ADD_TYPE_ID(troupe, (troupe::muster::stop))
  CAF_ADD_TYPE_ID(troupe, (troupe::owner_batch))
  CAF_ADD_TYPE_ID(troupe, (troupe::run_commits))
  CAF_ADD_TYPE_ID(troupe, (troupe::run_ended))
  CAF_ADD_TYPE_ID(troupe, (troupe::run_failed))
  CAF_ADD_TYPE_ID(troupe, (troupe::run_heard))
  CAF_ADD_TYPE_ID(troupe, (troupe::owner_actor))
  CAF_ADD_TYPE_ID(troupe, (troupe::adder_actor))
  CAF_ADD_TYPE_ID(troupe, (troupe::replica_actor))
  CAF_ADD_TYPE_ID(troupe, (troupe::chief_actor))
  CAF_ADD_TYPE_ID(troupe, (troupe::office_actor))
  CAF_ADD_TYPE_ID(troupe, (troupe::caller_actor))
  CAF_ADD_TYPE_ID(troupe, (troupe::steward_actor))

CAF_END_TYPE_ID_BLOCK(troupe)
