#pragma once

#include "troupe/actors/group/group_environment.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/tests/actors/group/groups.hpp"

#include <caf/actor_addr.hpp>
#include <caf/actor_cast.hpp>
#include <caf/exit_reason.hpp>
#include <caf/send.hpp>

// An actor group whose roles a test can kill.

namespace troupe::testing {

using reduction = replica_group_options::reducer_kind;

inline replica_group_options options_of(std::uint32_t replicas,
                                        reduction reducing) {
  return {.replicas = replicas, .reducers = reducing, .seed = 42};
}

struct group_fixture {
  explicit group_fixture(const replica_group_options& options,
                         bool via_mailbox = false) {
    group = make_replica_group(
      group_environment{.system = actors.system(),
                        .via_mailbox = via_mailbox,
                        .on_spawn =
                          [this](const role_id& id, const caf::actor& role) {
                            if (id.role == role_id::kind::replica)
                              replicas.push_back(role.address());
                            else if (id.role == role_id::kind::reducer)
                              reducers.push_back(role.address());
                            else
                              chief = role.address();
                          }},
      options);
  }

  static void kill(const caf::actor_addr& role) {
    caf::anon_send_exit(caf::actor_cast<caf::actor>(role),
                        caf::exit_reason::kill);
  }

  runtime actors;
  std::vector<caf::actor_addr> replicas, reducers;
  caf::actor_addr chief;
  std::unique_ptr<replica_group> group;
};

} // namespace troupe::testing
