#pragma once

// Every struct and handle that crosses a mailbox, in one list, with the name
// that CAF prints. What crosses a process does so in frames (docs/wire.md).

#include "troupe/actors/atoms.hpp"
#include "troupe/actors/ec.hpp"
#include "troupe/strategies/report.hpp"
#include "troupe/strategies/tree_sum.hpp"

CAF_BEGIN_TYPE_ID_BLOCK(troupe, caf::id_block::troupe_atoms::end)

  CAF_ADD_TYPE_ID(troupe, (troupe::step_report))
  CAF_ADD_TYPE_ID(troupe, (troupe::commit_record))
  CAF_ADD_TYPE_ID(troupe, (troupe::tree::stamp))
  CAF_ADD_TYPE_ID(troupe, (troupe::tree::part))
  CAF_ADD_TYPE_ID(troupe, (troupe::tree::sum))
  CAF_ADD_TYPE_ID(troupe, (troupe::tree::share))

CAF_END_TYPE_ID_BLOCK(troupe)
