#pragma once

#include "troupe/actors/group/group_environment.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/tests/actors/group/groups.hpp"

#include <caf/actor_addr.hpp>
#include <caf/actor_cast.hpp>
#include <caf/exit_reason.hpp>
#include <caf/send.hpp>

// A group of actors whose roles a test can terminate.

namespace troupe::testing {

using how = crew_options::reducers;

inline crew_options options_of(std::uint32_t replicas, how reducing) {
  return {.replicas = replicas, .reducing = reducing, .seed = 42};
}

struct stage {
  explicit stage(const crew_options& options, bool by_mail = false) {
    it = make_crew(crew_place{.system = actors.system(),
                              .by_mail = by_mail,
                              .on_spawn =
                                [this](const party& who, const caf::actor& x) {
                                  if (who.what == party::role::replica)
                                    replicas.push_back(x.address());
                                  else if (who.what == party::role::reducer)
                                    reducers.push_back(x.address());
                                  else
                                    chief = x.address();
                                }},
                   options);
  }

  static void kill(const caf::actor_addr& who) {
    caf::anon_send_exit(caf::actor_cast<caf::actor>(who),
                        caf::exit_reason::kill);
  }

  runtime actors;
  std::vector<caf::actor_addr> replicas, reducers;
  caf::actor_addr chief;
  std::unique_ptr<crew> it;
};

} // namespace troupe::testing
