#include "troupe/actors/core/fault_injector.hpp"

namespace troupe {

std::string to_string(const role_id& role) {
  switch (role.role) {
    case role_id::kind::chief:
      return "chief";
    case role_id::kind::replica:
      return "replica " + std::to_string(role.id);
    case role_id::kind::local_agent:
      return "local agent " + std::to_string(role.id);
    case role_id::kind::reducer:
      break;
  }
  return "reducer " + std::to_string(role.id);
}

} // namespace troupe
