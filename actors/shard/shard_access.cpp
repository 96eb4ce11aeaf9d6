#include "troupe/actors/shard/shard_access.hpp"

#include "troupe/actors/core/exception_handler.hpp"

#include <caf/actor_cast.hpp>

namespace troupe {

void shard_directory::add(const std::string& job, std::uint32_t index,
                          const shard_actor& one) {
  const std::lock_guard hold{lock_};
  std::erase_if(shards_, [](const auto& x) {
    return !caf::actor_cast<caf::strong_actor_ptr>(x.second);
  });
  shards_[{job, index}] = one.address();
}

shard_actor shard_directory::find(const std::string& job,
                                  std::uint32_t index) const {
  const std::lock_guard hold{lock_};
  const auto found = shards_.find({job, index});
  return found == shards_.end() ? shard_actor{}
                                : caf::actor_cast<shard_actor>(found->second);
}

shard_actor::behavior_type shard_access(shard_actor::pointer self,
                                        const shard_actor& target) {
  install_exception_handler(self);
  self->monitor(target);
  self->set_down_handler(
    [self](const caf::down_msg& x) { self->quit(x.reason); });
  // The address: a handle in the actor would keep the shard alive.
  const auto to = [address = target.address()] {
    return caf::actor_cast<shard_actor>(address);
  };
  return {
    [=](const new_part& x, const tensor& initial) {
      return self->delegate(to(), x, initial);
    },
    [=](const shard_limits& x) { return self->delegate(to(), x); },
    [=](const new_optimizer& x) { return self->delegate(to(), x); },
    [=](const part_pull& x, const tensors& operands) {
      return self->delegate(to(), x, operands);
    },
    [=](const optimizer_pull& x) { return self->delegate(to(), x); },
    [=](const change_list& x, const tensors& operands) {
      return self->delegate(to(), x, operands);
    },
    [=](const execution_effects& x, const tensors& operands) {
      return self->delegate(to(), x, operands);
    },
    [=](const coordinator::decision& x) { return self->delegate(to(), x); },
    [=](atom::info) { return self->delegate(to(), atom::info_v); },
    [=](atom::status) { return self->delegate(to(), atom::status_v); },
    [=](const removal& x) { return self->delegate(to(), x); },
  };
}

} // namespace troupe
