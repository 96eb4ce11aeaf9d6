#include "troupe/actors/collectives/nccl/nccl_collectives.hpp"

#include "troupe/strategies/tree/fold.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <utility>

namespace troupe {

namespace {

constexpr std::size_t alignment = 64;

local_placement checked(const local_placement& ranks) {
  for (std::uint32_t p = 0; p < ranks.job.processes(); ++p)
    if (ranks.job.replicas_of(p).empty())
      throw std::logic_error("rank " + std::to_string(p)
                             + " of a communicator has no replica");
  return ranks;
}

/// Keeps an object until the process ends. It stays reachable, so that checks
/// for leaks do not report it.
void keep_forever(std::shared_ptr<void> object) {
  static std::mutex lock;
  static auto& kept = *new std::vector<std::shared_ptr<void>>;
  const std::lock_guard locked{lock};
  kept.push_back(std::move(object));
}

} // namespace

nccl_collectives::nccl_collectives(
  const local_placement& ranks, std::shared_ptr<communication_device> device,
  std::shared_ptr<communicator_id_exchange> ids,
  std::shared_ptr<blocking_calls> blocking, const nccl_options& options)
  : ranks_{checked(ranks)},
    options_{options},
    environment_{.device = std::move(device),
                 .stream = {},
                 .ids = std::move(ids),
                 .blocking = std::move(blocking),
                 .ranks = ranks.job.processes(),
                 .rank = ranks.process,
                 .initialize_timeout = options.initialize_timeout,
                 .finalize_timeout = options.finalize_timeout},
    log_{ranks_},
    staged_(ranks.count()) {
  environment_.stream = environment_.device->make_stream();
  for (std::uint32_t p = 0; p < ranks.job.processes(); ++p)
    subtrees_.push_back(collective::subtrees_of(ranks.job, p));
}

nccl_collectives::~nccl_collectives() {
  unique_lock locked{lock_};
  // Without waiting for the other ranks, of which one may be lost.
  end_communicator(true);
  const auto limit = std::chrono::steady_clock::now() + options_.close_timeout;
  for (make_progress(); !(closing_.empty() && copied_sums_.empty())
                        && std::chrono::steady_clock::now() < limit;
       make_progress())
    progressed_.wait_for(locked, std::chrono::milliseconds{1});
  // Work of the device may still access the memory of what is left.
  for (auto& one : closing_)
    keep_forever(std::move(one));
  if (!copied_sums_.empty())
    keep_forever(
      std::make_shared<std::vector<copied_sum>>(std::move(copied_sums_)));
}

nccl_collectives::time_point nccl_collectives::now() const {
  return options_.now ? options_.now() : std::chrono::steady_clock::now();
}

collective::operation& nccl_collectives::logged(const device_operation& op) {
  return log_[op.number];
}

bool nccl_collectives::is_tree(const device_operation& op) {
  return logged(op).options.algorithm
         == collective_options::algorithm_kind::tree;
}

// -- generations and steps ----------------------------------------------------

void nccl_collectives::begin_generation(std::uint32_t replica,
                                        std::uint64_t generation) {
  const unique_lock locked{lock_};
  if (generation > log_.generation()) {
    end_communicator(false);
    failure_.reset();
    is_failure_reported_ = false;
    log_.start_generation(generation);
    holds_groups_ = options_.holds_first_groups;
    communicator_ = std::make_unique<generation_communicator>(
      environment_, generation, now());
  }
  log_.join_generation(replica, generation);
  make_progress();
}

void nccl_collectives::begin_step(std::uint32_t replica, std::uint64_t step) {
  const unique_lock locked{lock_};
  log_.begin_step(replica, step);
  log_.trim(std::numeric_limits<std::uint64_t>::max());
}

void nccl_collectives::end_step(std::uint32_t replica) {
  const unique_lock locked{lock_};
  if (log_.is_current(replica)
      && log_.first_incomplete() < log_.calls_of(replica))
    end_communicator(true);
  log_.end_step(replica);
  log_.trim(std::numeric_limits<std::uint64_t>::max());
}

void nccl_collectives::start_groups() {
  const unique_lock locked{lock_};
  if (std::exchange(holds_groups_, false))
    make_progress();
}

bool nccl_collectives::is_current(std::uint32_t replica) {
  const unique_lock locked{lock_};
  return log_.is_current(replica);
}

/// Ends the communicator and the work of the generation. All memory that work
/// may still access is kept until the stream has drained.
/// @param aborts aborts the communicator even if no work is left.
void nccl_collectives::end_communicator(bool aborts) {
  log_.abort();
  generation_communicator::guarded_memory guarded;
  const auto guard = [&](staged_contribution& staged) {
    guarded.memory.push_back(std::move(staged.memory));
    if (staged.copied)
      guarded.events.push_back(std::move(staged.copied));
  };
  bool work_left = aborts || !operations_.empty();
  for (auto& op : operations_) {
    std::ranges::for_each(op.staged, guard);
    std::ranges::copy(op.parts, std::back_inserter(guarded.memory));
    for (const auto* data : {&op.records, &op.gathered}) {
      guarded.memory.push_back(data->host);
      guarded.memory.push_back(data->device);
    }
  }
  operations_.clear();
  for (auto& of_replica : staged_) {
    work_left |= !of_replica.empty();
    std::ranges::for_each(of_replica, guard);
    of_replica.clear();
  }
  if (!communicator_)
    return;
  communicator_->close(work_left, std::move(guarded), now());
  closing_.push_back(std::move(communicator_));
}

// -- contributions ------------------------------------------------------------

void nccl_collectives::contribute(
  std::uint32_t replica, std::uint32_t bucket, const tensor& contribution,
  const collective_options& options,
  const std::shared_ptr<device_stream>& compute) {
  const unique_lock locked{lock_};
  if (!log_.is_current(replica))
    return;
  log_.contribute(replica, bucket, contribution, options,
                  collective::output_placement::separate);
  try {
    auto memory =
      environment_.device->allocate(memory_kind::device, contribution.bytes());
    auto& of_replica = staged_[ranks_.job.index_of(replica)];
    of_replica.push_back({memory, {}, compute});
    compute->copy(memory.get(), contribution);
    of_replica.back().copied = compute->record();
  } catch (const device_error& e) {
    // Such as too little memory.
    return fail_here(e.what());
  }
  make_progress();
}

void nccl_collectives::gather(std::uint32_t replica, std::uint32_t bucket,
                              const tensor& contribution,
                              const collective_options& options) {
  const unique_lock locked{lock_};
  if (!log_.is_current(replica))
    return;
  log_.gather(replica, bucket, contribution, options);
  make_progress();
}

// -- progress -----------------------------------------------------------------

void nccl_collectives::make_progress() {
  release_copied_sums();
  std::erase_if(closing_, [this](const auto& one) {
    return one->progress(now()) == generation_communicator::state::closed;
  });
  if (!communicator_)
    return;
  using state = generation_communicator::state;
  const auto current = communicator_->progress(now());
  if (current == state::failed)
    return fail_here(communicator_->error());
  try {
    start_called();
    if (current == state::ready && !holds_groups_)
      submit_all();
    complete_all();
    check_deadlines();
  } catch (const device_error& e) {
    fail_here(e.what());
  }
}

/// Begins the collectives that all replicas of this rank have called.
void nccl_collectives::start_called() {
  while (auto* called = log_.next_ready()) {
    auto& op = operations_.emplace_back();
    op.number = log_.started();
    op.deadline = now() + options_.operation_timeout;
    called->remaining = 1;
    if (!called->is_gather())
      for (auto& of_replica : staged_) {
        op.staged.push_back(std::move(of_replica.front()));
        of_replica.erase(of_replica.begin());
      }
    allocate_memory(op);
    log_.mark_started();
  }
}

/// Allocates what the groups of a collective need, but for the tensors of a
/// gather, whose sizes are not known yet.
void nccl_collectives::allocate_memory(device_operation& op) {
  op.records = make_exchange(
    std::vector<std::size_t>(ranks_.job.replicas(), sizeof(call_record_bytes)));
  if (logged(op).is_gather())
    return;
  op.parts.resize(ranks_.job.replicas());
  const auto& spec = logged(op).spec;
  for (std::uint32_t peer = 0; is_tree(op) && peer < environment_.ranks; ++peer)
    if (peer != environment_.rank)
      for (const auto& subtree : subtrees_[peer])
        op.parts[subtree.begin] = environment_.device->allocate(
          memory_kind::device, spec.dims.elements() * size_of(spec.type));
}

/// Adds collectives to the stream in the order of their numbers, which is equal
/// on all ranks.
void nccl_collectives::submit_all() {
  for (std::size_t i = 0; communicator_ && i < operations_.size(); ++i)
    if (!submit(operations_[i]))
      return;
}

/// Adds the next parts of a collective to the stream.
/// @returns true if all parts are in the stream.
bool nccl_collectives::submit(device_operation& op) {
  using phase = device_operation::phase;
  auto& stream = *environment_.stream;
  if (op.current == phase::called && communicator_->accepts_group()) {
    submit_records(op);
    op.current = phase::records;
  }
  if (op.current == phase::records && communicator_->accepts_group()) {
    stream.copy(op.records.host.get(), op.records.device.get(),
                op.records.begin.back());
    op.records_arrived = stream.record();
    op.current = phase::tensors_next;
  }
  if (op.current == phase::tensors_next) {
    if (!logged(op).is_gather())
      submit_sum(op);
    else if (compare_records(op))
      submit_gather(op);
    else
      return false;
    op.current = phase::tensors;
  }
  if (op.current == phase::tensors && communicator_->accepts_group()) {
    if (logged(op).is_gather())
      stream.copy(op.gathered.host.get(), op.gathered.device.get(),
                  op.gathered.begin.back());
    else
      finish_sum(op);
    op.done = stream.record();
    op.current = phase::enqueued;
  }
  return op.current == phase::enqueued;
}

/// Completes collectives in order. A difference of the records is found before
/// the tensors have arrived, because they may never arrive.
void nccl_collectives::complete_all() {
  while (!operations_.empty()) {
    auto& op = operations_.front();
    if (!op.records_arrived || !compare_records(op)
        || op.current != device_operation::phase::enqueued
        || !op.done->is_complete())
      return;
    complete(op);
    operations_.erase(operations_.begin());
    progressed_.notify_all();
  }
}

void nccl_collectives::check_deadlines() {
  if (operations_.empty() || options_.operation_timeout.count() == 0
      || now() < operations_.front().deadline)
    return;
  const auto& op = logged(operations_.front());
  fail({ec::stalled,
        (op.is_gather() ? "gather " : "bucket ") + std::to_string(op.bucket)
          + " of step " + std::to_string(op.step) + " is not complete after "
          + std::to_string(options_.operation_timeout.count()) + " ms"});
}

// -- records and gathers ------------------------------------------------------

nccl_collectives::exchange
nccl_collectives::make_exchange(std::vector<std::size_t> bytes) {
  exchange out{
    .bytes = std::move(bytes), .begin = {0}, .host = {}, .device = {}};
  for (const auto size : out.bytes)
    out.begin.push_back(out.begin.back()
                        + (size + alignment - 1) / alignment * alignment);
  out.host =
    environment_.device->allocate(memory_kind::pinned, out.begin.back());
  out.device =
    environment_.device->allocate(memory_kind::device, out.begin.back());
  return out;
}

/// Sends the bytes of this rank's replicas to all other ranks, and receives
/// those of their replicas.
void nccl_collectives::submit(const exchange& data) {
  auto& stream = *environment_.stream;
  for (const auto r : ranks_.replicas())
    stream.copy(data.device.get() + data.begin[r],
                data.host.get() + data.begin[r], data.bytes[r]);
  transfer_group group{*communicator_->get()};
  for (std::uint32_t peer = 0; peer < environment_.ranks; ++peer) {
    if (peer == environment_.rank)
      continue;
    for (const auto r : ranks_.replicas())
      if (data.bytes[r] > 0)
        communicator_->get()->send(data.device.get() + data.begin[r],
                                   data.bytes[r], peer, stream);
    for (const auto r : ranks_.job.replicas_of(peer))
      if (data.bytes[r] > 0)
        communicator_->get()->receive(data.device.get() + data.begin[r],
                                      data.bytes[r], peer, stream);
  }
  group.end();
}

void nccl_collectives::submit_records(device_operation& op) {
  const auto& call = logged(op);
  for (std::uint32_t i = 0; i < ranks_.count(); ++i) {
    const auto replica = ranks_.replicas()[i];
    const auto bytes = write({.replica = replica,
                              .step = call.step,
                              .sequence = call.sequence,
                              .is_gather = call.is_gather(),
                              .bucket = call.bucket,
                              .spec = call.inputs[i].spec(),
                              .options = call.options});
    std::memcpy(op.records.host.get() + op.records.begin[replica], bytes.data(),
                bytes.size());
  }
  submit(op.records);
}

/// Compares the records of all replicas with that of the first replica of this
/// rank. Fails if they differ.
/// @returns true if all have arrived and agree.
bool nccl_collectives::compare_records(device_operation& op) {
  if (op.records_agree || !op.records_arrived->is_complete())
    return op.records_agree;
  const auto record_of = [&](std::uint32_t replica, call_record& record) {
    call_record_bytes bytes;
    std::memcpy(bytes.data(), op.records.host.get() + op.records.begin[replica],
                bytes.size());
    return read(bytes, record) && record.replica == replica;
  };
  call_record own, other;
  record_of(ranks_.replicas().front(), own);
  for (std::uint32_t r = 0; r < ranks_.job.replicas(); ++r) {
    const bool valid = record_of(r, other);
    if (const auto text = valid ? describe_difference(other, own)
                                : "replica " + std::to_string(r)
                                    + " sent an invalid record of a call";
        !text.empty()) {
      fail({ec::protocol, text});
      return false;
    }
    if (logged(op).is_gather()) {
      op.gathered.bytes.resize(ranks_.job.replicas());
      op.gathered.bytes[r] =
        other.spec.dims.elements() * size_of(other.spec.type);
      if (!ranks_.hosts(r))
        logged(op).gathered[r] = tensor{other.spec};
    }
  }
  return op.records_agree = true;
}

void nccl_collectives::submit_gather(device_operation& op) {
  op.gathered = make_exchange(std::move(op.gathered.bytes));
  for (const auto r : ranks_.replicas())
    std::memcpy(op.gathered.host.get() + op.gathered.begin[r],
                logged(op).gathered[r].raw(), op.gathered.bytes[r]);
  submit(op.gathered);
}

// -- sums ---------------------------------------------------------------------

/// Adds work that computes the sum over replicas [begin, end) in tree order, in
/// the memory of its first leaf.
/// @param leaf `leaf(begin, end)` returns the memory of a leaf, or null if the
///             range is not a leaf.
template <class Leaf>
std::byte* nccl_collectives::add_tree(std::uint32_t begin, std::uint32_t end,
                                      const Leaf& leaf,
                                      const tensor_spec& spec) {
  if (auto* memory = leaf(begin, end))
    return memory;
  const auto cut = begin + std::uint32_t(tree::split(end - begin));
  auto* left = add_tree(begin, cut, leaf, spec);
  const auto* right = add_tree(cut, end, leaf, spec);
  environment_.stream->add(left, left, right, spec.dims.elements(), spec.type);
  return left;
}

/// Adds the contributions of this rank to the sums of its subtrees, and sends
/// these to all other ranks or adds them by NCCL's all-reduce.
void nccl_collectives::submit_sum(device_operation& op) {
  auto& stream = *environment_.stream;
  const auto spec = logged(op).spec;
  const auto bytes = spec.dims.elements() * size_of(spec.type);
  for (const auto& staged : op.staged)
    stream.wait(*staged.copied);
  const auto& own = subtrees_[environment_.rank];
  for (const auto& subtree : own) {
    add_tree(
      subtree.begin, subtree.end,
      [&](std::uint32_t begin, std::uint32_t end) {
        return end - begin > 1
                 ? nullptr
                 : op.staged[ranks_.job.index_of(begin)].memory.get();
      },
      spec);
    op.parts[subtree.begin] =
      op.staged[ranks_.job.index_of(subtree.begin)].memory;
  }
  auto& communicator = *communicator_->get();
  if (!is_tree(op)) {
    auto* sum = op.parts[own.front().begin].get();
    for (std::size_t i = 1; i < own.size(); ++i)
      stream.add(sum, sum, op.parts[own[i].begin].get(), spec.dims.elements(),
                 spec.type);
    transfer_group group{communicator};
    if (bytes > 0)
      communicator.all_reduce(sum, spec.dims.elements(), spec.type, stream);
    return group.end();
  }
  transfer_group group{communicator};
  for (std::uint32_t peer = 0; bytes > 0 && peer < environment_.ranks; ++peer) {
    if (peer == environment_.rank)
      continue;
    for (const auto& subtree : own)
      communicator.send(op.parts[subtree.begin].get(), bytes, peer, stream);
    for (const auto& subtree : subtrees_[peer])
      communicator.receive(op.parts[subtree.begin].get(), bytes, peer, stream);
  }
  group.end();
}

bool nccl_collectives::is_subtree(std::uint32_t begin,
                                  std::uint32_t end) const {
  const auto& candidates = subtrees_[ranks_.job.process_of(begin)];
  return std::ranges::count(candidates, replica_range{begin, end}) > 0;
}

/// Adds the subtrees of all ranks in tree order.
void nccl_collectives::finish_sum(device_operation& op) {
  if (is_tree(op))
    add_tree(
      0, ranks_.job.replicas(),
      [&](std::uint32_t begin, std::uint32_t end) {
        return is_subtree(begin, end) ? op.parts[begin].get() : nullptr;
      },
      logged(op).spec);
}

/// Makes the result of a collective visible to the replicas.
void nccl_collectives::complete(device_operation& op) {
  auto& call = logged(op);
  if (call.is_gather()) {
    for (std::uint32_t r = 0; r < ranks_.job.replicas(); ++r)
      if (!ranks_.hosts(r))
        std::memcpy(call.gathered[r].raw(),
                    op.gathered.host.get() + op.gathered.begin[r],
                    op.gathered.bytes[r]);
  } else {
    const auto first =
      is_tree(op) ? 0 : subtrees_[environment_.rank].front().begin;
    const auto on = call.inputs.front().device();
    call.output = on.kind == device_kind::cpu
                    ? environment_.device->tensor_of(op.parts[first], call.spec)
                    : sum_on_device(op, op.parts[first], call.spec, on);
  }
  log_.complete_item(call);
}

/// Lets a compute stream copy a sum, and the compute streams of all other
/// replicas of the rank wait for the copy. The memory of the sum is kept until
/// that is done, because the communication stream must not write to it before.
/// @errors throws device_lost.
tensor nccl_collectives::sum_on_device(const device_operation& op,
                                       const device_memory& memory,
                                       const tensor_spec& spec,
                                       const device& on) {
  tensor out{spec, on};
  const auto& compute = op.staged.front().compute;
  auto& copied = copied_sums_.emplace_back(copied_sum{memory, {}});
  try {
    compute->copy(out, memory.get());
    copied.copied = compute->record();
  } catch (const device_lost&) {
    copied_sums_.pop_back(); // the device accesses no memory any more
    throw;
  }
  for (const auto& staged : op.staged)
    if (staged.compute != compute)
      staged.compute->wait(*copied.copied);
  return out;
}

void nccl_collectives::release_copied_sums() {
  std::erase_if(copied_sums_, [](const copied_sum& one) {
    try {
      return one.copied && one.copied->is_complete();
    } catch (const device_lost&) {
      return true; // the device accesses no memory any more
    } catch (const device_error&) {
      return false; // the memory is never used again
    }
  });
}

// -- failures -----------------------------------------------------------------

void nccl_collectives::fail(failure reason,
                            std::chrono::milliseconds report_delay) {
  if (!failure_) {
    failure_ = std::move(reason);
    failure_reported_at_ = now() + report_delay;
  }
  end_communicator(true);
  progressed_.notify_all();
}

/// Fails because of an error of CUDA or NCCL. A lost peer is the cause of
/// neither if the device of this rank is lost.
void nccl_collectives::fail_here(const std::string& cause) {
  fail({ec::unreachable, cause}, is_device_lost()
                                   ? std::chrono::milliseconds{}
                                   : options_.error_report_delay);
}

bool nccl_collectives::is_device_lost() const {
  try {
    environment_.stream->record();
  } catch (const device_lost&) {
    return true;
  } catch (const device_error&) {
  }
  return false;
}

bool nccl_collectives::reports_failure() {
  if (!failure_ || now() < failure_reported_at_)
    return false;
  if (!std::exchange(is_failure_reported_, true) && options_.on_failure)
    options_.on_failure(*failure_);
  return true;
}

std::optional<nccl_collectives::failure> nccl_collectives::last_failure() {
  const unique_lock locked{lock_};
  return reports_failure() ? failure_ : std::nullopt;
}

void nccl_collectives::abort(std::uint64_t generation, failure reason) {
  const unique_lock locked{lock_};
  if (log_.generation() == generation)
    fail(std::move(reason));
}

void nccl_collectives::check() {
  const unique_lock locked{lock_};
  make_progress();
}

bool nccl_collectives::is_drained() {
  const unique_lock locked{lock_};
  make_progress();
  return closing_.empty() && copied_sums_.empty();
}

// -- waiting and results ------------------------------------------------------

bool nccl_collectives::holds(std::uint32_t replica,
                             const wait_condition& condition) {
  if (!log_.is_current(replica))
    return false;
  switch (condition.event) {
    case wait_condition::kind::sum:
      return static_cast<bool>(log_.sum_of(replica, condition.bucket));
    case wait_condition::kind::gather:
      return !log_.gathered(replica, condition.bucket).empty();
    default:
      return log_.first_incomplete() >= log_.calls_of(replica);
  }
}

nccl_collectives::wait_status
nccl_collectives::wait(std::uint32_t replica, const wait_condition& condition,
                       bool blocking) {
  unique_lock locked{lock_};
  make_progress();
  if (blocking && !holds(replica, condition) && !reports_failure()
      && options_.poll_interval.count() > 0) {
    progressed_.wait_for(locked, options_.poll_interval);
    make_progress();
  }
  if (holds(replica, condition))
    return wait_status::ready;
  return reports_failure() ? wait_status::failed : wait_status::pending;
}

tensor nccl_collectives::sum_of(std::uint32_t replica, std::uint32_t bucket) {
  const unique_lock locked{lock_};
  return log_.sum_of(replica, bucket);
}

tensors nccl_collectives::gathered(std::uint32_t replica,
                                   std::uint32_t bucket) {
  const unique_lock locked{lock_};
  return log_.gathered(replica, bucket);
}

std::optional<std::uint32_t>
nccl_collectives::first_incomplete(std::uint32_t replica) {
  const unique_lock locked{lock_};
  if (!log_.is_current(replica)
      || log_.first_incomplete() >= log_.calls_of(replica))
    return std::nullopt;
  return log_[log_.first_incomplete()].bucket;
}

std::vector<std::uint32_t> nccl_collectives::missing(std::uint64_t step) {
  const unique_lock locked{lock_};
  make_progress();
  const auto number = log_.first_incomplete();
  if (log_.is_aborted() || number >= log_.end() || log_[number].step != step)
    return {};
  auto out = log_.replicas_without(number);
  for (std::uint32_t r = 0; out.empty() && r < ranks_.job.replicas(); ++r)
    if (!ranks_.hosts(r))
      out.push_back(r);
  return out;
}

} // namespace troupe
