#include "troupe/actors/collectives/local_backend.hpp"

#include "troupe/actors/core/cpu_relax.hpp"

namespace troupe {

namespace {

/// Number of elements that are added before the tensor queue is read again.
constexpr std::size_t max_elements_at_once = 64 * 1024;

role_id replica_role(std::uint32_t replica) {
  return {role_id::kind::replica, replica};
}

} // namespace

local_backend::local_backend(const local_backend_options& options,
                             std::shared_ptr<local_transport> transport,
                             std::shared_ptr<fault_injector> faults)
  : options_{options},
    transport_{std::move(transport)},
    sender_{replica_role(options.replica), transport_, std::move(faults)},
    participant_{options.replica, options.replicas},
    reducers_{options.replicas} {}

// -- generations and steps ----------------------------------------------------

void local_backend::begin_generation(std::uint64_t generation) {
  generation_ = generation;
  failure_.reset();
  participant_.begin_step(generation, 0);
  reducers_.begin_generation(generation);
}

void local_backend::begin_step(std::uint64_t step) {
  step_ = step;
  participant_.begin_step(generation_, step);
}

// -- contributions ------------------------------------------------------------

void local_backend::contribute(std::uint32_t bucket, const tensor& contribution,
                               const collective_options& options,
                               collective::output_placement) {
  const bool has_reducers = options_.reducers > 0;
  const auto reducer_count =
    has_reducers ? options_.reducers : options_.replicas;
  const auto slices =
    has_reducers ? 1 : tree::slices_of(contribution.size(), options_.replicas);
  const auto sequence = participant_.calls();
  const auto output =
    participant_.contribute(bucket, contribution, slices, options);
  for (std::uint32_t s = 0; s < slices; ++s) {
    tensor_message message{message_kind::contribution,
                           {generation_, step_, options_.incarnation,
                            options_.replica, bucket, s, slices, options,
                            sequence},
                           contribution,
                           output};
    const auto reducer = tree::reducer_of(bucket, s, reducer_count);
    if (has_reducers)
      sender_.send_tensor({role_id::kind::reducer, reducer},
                          std::move(message));
    else if (reducer == options_.replica)
      deliver(std::move(message));
    else
      sender_.send_tensor(replica_role(reducer), std::move(message));
  }
  drain_queue();
  check_order();
}

void local_backend::gather(std::uint32_t bucket, const tensor& contribution,
                           const collective_options& options) {
  // A copy, because other replicas may read it after the step has ended.
  const auto copy = contribution.clone();
  const auto sequence = participant_.calls();
  participant_.gather(bucket, copy, options);
  for (std::uint32_t r = 0; r < options_.replicas; ++r)
    if (r != options_.replica)
      sender_.send_tensor(replica_role(r),
                          {message_kind::gather_contribution,
                           {generation_, step_, options_.incarnation,
                            options_.replica, bucket, 0, 1, options, sequence},
                           copy,
                           {}});
  check_order();
}

/// Fails if this replica and another replica call different collectives.
void local_backend::check_order() {
  if (const auto& difference = participant_.difference();
      difference && !failure_)
    failure_ = {ec::protocol, *difference};
}

// -- messages and additions ---------------------------------------------------

void local_backend::deliver(tensor_message&& message) {
  if (message.key.generation < generation_)
    return;
  if (message.kind == message_kind::contribution) {
    const auto result =
      reducers_.on({message.key}, message.data, message.output);
    if (const auto* broken_rule = std::get_if<tree::protocol_error>(&result);
        broken_rule && !failure_)
      failure_ = {ec::protocol, broken_rule->reason};
  } else if (message.kind == message_kind::result) {
    participant_.on(tree::reduced_slice{message.key}, message.data);
  } else {
    participant_.on(tree::gather_contribution{message.key}, message.data);
    check_order();
  }
}

void local_backend::drain_queue() {
  tensor_message message;
  for (auto& queue = transport_->queue_of(options_.replica);
       queue.pop(message);)
    deliver(std::move(message));
}

/// Adds some elements of a slice, preferably of `bucket`, and sends a complete
/// slice to all replicas.
/// @returns false if there is nothing to add.
bool local_backend::reduce_some(std::uint32_t bucket) {
  if (!reducers_.busy())
    return false;
  if (auto result = reducers_.reduce_some(max_elements_at_once, bucket)) {
    const auto& slice = result->spec;
    tree::slice_key key{slice.generation, slice.step,  options_.incarnation, 0,
                        slice.bucket,     slice.slice, slice.slices};
    for (key.replica = 0; key.replica < options_.replicas; ++key.replica)
      if (key.replica == options_.replica)
        participant_.on(tree::reduced_slice{key}, result->sum);
      else
        sender_.send_tensor(replica_role(key.replica),
                            {message_kind::result, key, result->sum, {}});
  }
  return true;
}

bool local_backend::serve() {
  drain_queue();
  while (reduce_some(0)) {
  }
  return !failure_;
}

bool local_backend::park() {
  return transport_->queue_of(options_.replica).park();
}

// -- waiting ------------------------------------------------------------------

bool local_backend::holds(const wait_condition& condition) {
  switch (condition.event) {
    case wait_condition::kind::sum:
      return static_cast<bool>(participant_.sum_of(condition.bucket));
    case wait_condition::kind::gather:
      return participant_.gathered(condition.bucket) != nullptr;
    default:
      return participant_.is_drained();
  }
}

collective_backend::wait_status
local_backend::wait(const wait_condition& condition, bool blocking) {
  using clock = std::chrono::steady_clock;
  const bool polls = options_.spin_timeout > std::chrono::microseconds{0};
  clock::time_point spin_end{};
  for (;;) {
    drain_queue();
    if (failure_)
      return wait_status::failed;
    if (holds(condition))
      return wait_status::ready;
    if (!blocking)
      return wait_status::pending;
    if (reduce_some(condition.bucket))
      continue;
    if (polls) {
      const auto now = clock::now();
      if (spin_end == clock::time_point{})
        spin_end = now + options_.spin_timeout;
      if (now < spin_end) {
        cpu_relax();
        continue;
      }
    }
    if (park())
      return wait_status::pending;
    spin_end = {};
  }
}

// -- results ------------------------------------------------------------------

tensor local_backend::sum_of(std::uint32_t bucket) {
  return participant_.sum_of(bucket);
}

tensors local_backend::gathered(std::uint32_t bucket) {
  const auto* all = participant_.gathered(bucket);
  return all ? *all : tensors{};
}

std::optional<std::uint32_t> local_backend::first_incomplete() {
  if (participant_.is_drained())
    return std::nullopt;
  return participant_.first_incomplete();
}

std::vector<std::uint32_t>
local_backend::missing(std::uint64_t step,
                       const std::optional<wait_condition>& condition) {
  if (const auto incomplete = reducers_.missing(step))
    return incomplete->replicas;
  if (condition && condition->event == wait_condition::kind::gather)
    return participant_.missing_in_gather(condition->bucket);
  return {};
}

} // namespace troupe
