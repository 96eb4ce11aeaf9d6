#include "troupe/actors/replica/replica.hpp"

#include <variant>

// Sums and gathers among replicas of one process.

namespace troupe {

namespace {

/// Number of elements that are added before the tensor queue is read again.
constexpr std::size_t max_elements_at_once = 64 * 1024;

} // namespace

void replica_state::on_tensor_message(tensor_message&& message) {
  if (message.key.generation < generation)
    return;
  if (message.kind == message_kind::contribution) {
    const auto result =
      slice_reducers->on({message.key}, message.data, message.output);
    if (const auto* broken_rule = std::get_if<tree::protocol_error>(&result))
      fail(step_commit::abort_cause::protocol, broken_rule->reason);
  } else if (message.kind == message_kind::result) {
    local_collectives->on(tree::reduced_slice{message.key}, message.data);
  } else {
    local_collectives->on(tree::gather_contribution{message.key}, message.data);
  }
}

void replica_state::drain_queue() {
  tensor_message message;
  for (auto& queue = transport->queue_of(id); queue.pop(message);)
    on_tensor_message(std::move(message));
}

void replica_state::send_contribution(std::uint32_t bucket,
                                      const tensor& contribution,
                                      const collective_options& sum_options) {
  const auto reducer_count = reducers > 0 ? reducers : replicas;
  const auto slices =
    reducers > 0 ? 1 : tree::slices_of(contribution.size(), replicas);
  const auto output =
    local_collectives->contribute(bucket, contribution, slices);
  for (std::uint32_t s = 0; s < slices; ++s) {
    tensor_message message{
      message_kind::contribution,
      {generation, next_step, incarnation, id, bucket, s, slices, sum_options},
      contribution,
      output};
    const auto host = tree::reducer_of(bucket, s, reducer_count);
    if (reducers > 0)
      sender.send_tensor({role_id::kind::reducer, host}, std::move(message));
    else if (host == id)
      on_tensor_message(std::move(message));
    else
      sender.send_tensor(replica_id(host), std::move(message));
  }
}

void replica_state::send_gather_contribution(std::uint32_t bucket,
                                             const tensor& contribution) {
  const auto copy =
    contribution.clone(); // other replicas may read it after this step
  local_collectives->gather(bucket, copy);
  for (std::uint32_t r = 0; r < replicas; ++r)
    if (r != id)
      sender.send_tensor(
        replica_id(r), {message_kind::gather_contribution,
                        {generation, next_step, incarnation, id, bucket, 0, 1},
                        copy,
                        {}});
}

bool replica_state::reduce_some(std::uint32_t bucket) {
  if (!slice_reducers->busy())
    return false;
  if (auto result = slice_reducers->reduce_some(max_elements_at_once, bucket)) {
    const auto& slice = result->spec;
    tree::slice_key key{slice.generation, slice.step,  incarnation, 0,
                        slice.bucket,     slice.slice, slice.slices};
    for (key.replica = 0; key.replica < replicas; ++key.replica)
      if (key.replica == id)
        local_collectives->on(tree::reduced_slice{key}, result->sum);
      else
        sender.send_tensor(replica_id(key.replica),
                           {message_kind::result, key, result->sum, {}});
  }
  return true;
}

} // namespace troupe
