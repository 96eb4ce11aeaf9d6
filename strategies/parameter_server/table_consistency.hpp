#pragma once

#include "troupe/strategies/parameter_server/consistency.hpp"

namespace troupe::parameter_server {

/// True if tables can have a consistency of their own in a job whose other
/// parameters have another one: these are synchronous, and each contribution to
/// the tables is an update of its own.
constexpr bool allows_table_consistency(const consistency& of_others,
                                        const consistency& of_tables) {
  return of_others.kind == consistency_kind::synchronous
         && of_tables.kind != consistency_kind::synchronous;
}

} // namespace troupe::parameter_server
