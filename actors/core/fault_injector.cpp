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

void step_numbers::begin_run(std::uint64_t first, std::uint64_t end,
                             std::optional<std::uint64_t> user_step) {
  const std::lock_guard hold{lock_};
  has_run_ = true;
  first_ = first;
  end_ = end;
  user_step_ = user_step;
}

std::optional<std::uint64_t>
step_numbers::user_step_of(std::uint64_t step) const {
  const std::lock_guard hold{lock_};
  if (!has_run_)
    return step;
  if (!user_step_ || step < first_ || step >= end_)
    return std::nullopt;
  return *user_step_ + (step - first_);
}

} // namespace troupe
