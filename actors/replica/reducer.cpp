#include "troupe/actors/replica/reducer.hpp"

#include "troupe/actors/core/exception_handler.hpp"

namespace troupe {

namespace {

/// Maximum number of elements that the reducer adds for one `next` message. The
/// addition takes less than 1 ms.
constexpr std::size_t max_elements_at_once = 256 * 1024;

} // namespace

void reducer_state::on_contribution(const tree::contribution& contribution,
                                    const tensor& data, const tensor& output) {
  const auto result = slices->on(contribution, data, output);
  if (const auto* violation = std::get_if<tree::protocol_error>(&result))
    sender.send({role_id::kind::chief, 0}, owner, message_kind::failed,
                contribution.key.generation, contribution.key.step,
                step_commit::failed{
                  contribution.key.generation, contribution.key.step,
                  contribution.key.replica, contribution.key.incarnation,
                  failure_report{.kind = failure_kind::step_failed,
                                 .code = ec::protocol,
                                 .cause = violation->reason}});
  if (slices->busy() && !next_pending) {
    next_pending = true;
    self->send(self, atom::next_v);
  }
}

void reducer_state::reduce_some() {
  if (const auto result = slices->reduce_some(max_elements_at_once)) {
    const auto& slice = result->spec;
    tree::slice_key key{slice.generation, slice.step,  0,           0,
                        slice.bucket,     slice.slice, slice.slices};
    for (key.replica = 0; key.replica < replicas; ++key.replica)
      sender.send_tensor({role_id::kind::replica, key.replica},
                         {message_kind::result, key, result->sum, {}});
  }
  next_pending = slices->busy();
  if (next_pending)
    self->send(self, atom::next_v);
}

void reducer_state::on_probe(const step_commit::probe& x) {
  if (const auto incomplete = slices->missing(x.step))
    sender.send({role_id::kind::chief, 0}, owner, message_kind::wait_report,
                x.generation, x.step,
                step_commit::wait_report{x.generation, x.step, true, id,
                                         step_commit::activity::reducing,
                                         incomplete->bucket,
                                         incomplete->replicas});
}

reducer_internal_actor::behavior_type
reducer(reducer_internal_actor::stateful_pointer<reducer_state> self,
        std::uint32_t id, std::uint32_t replicas, message_sender sender,
        replica_owner_actor owner) {
  install_exception_handler(self);
  auto& state = self->state;
  state.id = id;
  state.replicas = replicas;
  state.sender = std::move(sender);
  state.owner = std::move(owner);
  state.slices = std::make_unique<tree::slice_reducers>(replicas);
  return {
    [self](const tree::contribution& x, const tensor& data,
           const tensor& output) {
      self->state.on_contribution(x, data, output);
    },
    [self](const step_commit::probe& x) { self->state.on_probe(x); },
    [self](atom::next) { self->state.reduce_some(); },
  };
}

} // namespace troupe
