#include "troupe/actors/group/cooperative_group.hpp"

#include "troupe/actors/core/error_code.hpp"
#include "troupe/actors/core/fiber.hpp"
#include "troupe/actors/group/sequential_group.hpp"
#include "troupe/strategies/tree/reduction.hpp"

#include <algorithm>
#include <deque>
#include <limits>

namespace troupe {

namespace {

enum class collective_kind { sum, gather };

/// Collectives of the current step, shared by all replicas.
struct cooperative_collectives {
  struct bucket {
    static constexpr std::string_view name = "sum";
    bool has(std::uint32_t replica) const { return reduction.has(replica); }

    std::uint32_t number = 0;
    tree::reduction reduction;
    tensor sum; ///< Empty until the sum is complete.
  };
  struct pending_gather {
    static constexpr std::string_view name = "gather";
    bool has(std::uint32_t replica) const {
      return bool(contributions[replica]);
    }

    std::uint32_t number = 0;
    std::uint32_t arrived = 0;
    tensors contributions; ///< By replica; empty if still missing.
  };

  std::uint64_t step = 0, generation = 0;
  std::uint32_t replicas = 1;
  pooled<bucket> buckets;
  pooled<pending_gather> gathers;
  /// Number of contributions so far. If it does not increase, no parked
  /// replica can continue.
  std::uint64_t progress_count = 0;

  bucket& bucket_of(std::uint32_t number) {
    const auto it = std::ranges::find(buckets, number, &bucket::number);
    if (it != buckets.end())
      return *it;
    buckets.push_back(
      {number, tree::reduction{{generation, step, number, replicas}}, {}});
    return buckets.back();
  }

  pending_gather& gather_of(std::uint32_t number) {
    const auto it = std::ranges::find(gathers, number, &pending_gather::number);
    if (it != gathers.end())
      return *it;
    gathers.push_back({number, 0, tensors(replicas)});
    return gathers.back();
  }

  void contribute(std::uint32_t number, std::uint32_t replica,
                  const tensor& contribution,
                  const collective_options& options) {
    auto& target = bucket_of(number);
    if (target.sum || target.has(replica))
      throw_bucket_error("bucket ", number,
                         " was contributed to twice in a step");
    auto reaction = target.reduction.on(
      {{generation, step, 0, replica, number, 0, 1, options}}, contribution);
    if (std::holds_alternative<tree::reducing>(reaction))
      reaction =
        target.reduction.reduce_some(std::numeric_limits<std::size_t>::max());
    if (auto* broken = std::get_if<tree::protocol_error>(&reaction))
      throw std::logic_error(broken->reason);
    if (auto* done = std::get_if<tree::finished>(&reaction))
      target.sum = std::move(done->sum);
    ++progress_count;
  }
};

class cooperative_context final : public step_context {
public:
  void contribute(std::uint32_t bucket, const tensor& contribution) override {
    collectives->contribute(bucket, replica, contribution, options);
  }

  tensor sum(std::uint32_t bucket) override {
    auto& bucket_state = collectives->bucket_of(bucket);
    if (!bucket_state.sum && !bucket_state.has(replica))
      throw_bucket_error("the sum of bucket ", bucket,
                         " was requested before a contribution to it");
    awaited = {collective_kind::sum, bucket};
    // look up the bucket each time: it moves when a replica adds a bucket
    while (!collectives->bucket_of(bucket).sum)
      fiber::park();
    return collectives->bucket_of(bucket).sum;
  }

  tensors gather(std::uint32_t bucket, const tensor& contribution) override {
    auto& pending = collectives->gather_of(bucket);
    if (pending.contributions[replica])
      throw_bucket_error("gather ", bucket, " was called twice in a step");
    pending.contributions[replica] = contribution.clone();
    ++pending.arrived;
    ++collectives->progress_count;
    awaited = {collective_kind::gather, bucket};
    while (collectives->gather_of(bucket).arrived < replicas)
      fiber::park();
    return collectives->gather_of(bucket).contributions;
  }

  void begin_update() override {
    for (const auto& b : collectives->buckets)
      if (!b.sum && b.has(replica))
        throw_bucket_error("the update began before the sum of bucket ",
                           b.number, " was in");
  }

  cooperative_collectives* collectives = nullptr;
  struct {
    collective_kind kind = collective_kind::sum;
    std::uint32_t bucket = 0;
  } awaited; ///< The collective that the replica waits for while it is parked.
};

class cooperative_group final : public sequential_group {
public:
  explicit cooperative_group(const replica_group_options& options)
    : sequential_group{options} {
    for (std::uint32_t r = 0; r < options.replicas; ++r) {
      auto& replica = replicas_.emplace_back();
      prepare(replica.op_context, options, r, 0);
      replica.step.collectives = &collectives_;
    }
    collectives_.replicas = options.replicas;
  }

protected:
  void run_step(const step_function& fn, std::uint64_t step,
                std::uint64_t generation) override {
    collectives_.step = step;
    collectives_.generation = generation;
    const abort_on_exit ends{*this};
    for (std::uint32_t r = 0; r < replicas(); ++r) {
      auto& replica = replicas_[r];
      prepare(replica.op_context, options_, r, step);
      prepare(replica.step, options_, r, step, generation);
      replica.step_fiber.start([&fn, &replica] { fn(replica.step); });
    }
    while (resume_all()) {
    }
    for (const auto& b : collectives_.buckets)
      if (!b.sum)
        throw_stalled(describe_missing(b));
    for (std::uint32_t r = 0; r < replicas(); ++r)
      reports_[r] = replicas_[r].step.report;
  }

  context& context_of(std::uint32_t replica) override {
    return replicas_[replica].op_context;
  }

private:
  struct local_replica {
    context op_context;
    cooperative_context step;
    fiber step_fiber{&op_context};
  };

  /// Ends the step in its destructor, which also runs if the step throws. The
  /// destructor makes all replicas leave the step function and releases the
  /// contributions.
  struct abort_on_exit {
    explicit abort_on_exit(cooperative_group& group) : group{group} {}
    ~abort_on_exit() {
      for (auto& replica : group.replicas_)
        replica.step_fiber.abort();
      group.collectives_.buckets.clear();
      group.collectives_.gathers.clear();
    }
    cooperative_group& group;
  };

  /// Resumes each unfinished replica once. The replica runs until it parks or
  /// finishes the step.
  /// @returns true if a replica has not finished the step.
  /// @errors throws `job_error` if no replica can continue.
  bool resume_all() {
    const auto progress_before = collectives_.progress_count;
    bool unfinished = false, finished_one = false;
    for (auto& replica : replicas_) {
      if (replica.step_fiber.done())
        continue;
      replica.step_fiber.resume();
      if (replica.step_fiber.error())
        std::rethrow_exception(replica.step_fiber.error());
      finished_one |= replica.step_fiber.done();
      unfinished |= !replica.step_fiber.done();
    }
    if (unfinished && !finished_one
        && progress_before == collectives_.progress_count)
      throw_no_progress();
    return unfinished;
  }

  [[noreturn]] void throw_stalled(const std::string& reason) {
    throw job_error(ec::stalled, "step " + std::to_string(collectives_.step)
                                   + " stalled: " + reason);
  }

  [[noreturn]] void throw_no_progress() {
    const auto waiting_replica = std::ranges::find_if(
      replicas_, [](const local_replica& x) { return !x.step_fiber.done(); });
    const auto [kind, bucket] = waiting_replica->step.awaited;
    const auto text =
      "replica " + std::to_string(waiting_replica->step.replica) + " waits, ";
    if (kind == collective_kind::sum)
      throw_stalled(text + describe_missing(collectives_.bucket_of(bucket)));
    throw_stalled(text + describe_missing(collectives_.gather_of(bucket)));
  }

  template <class B>
  std::string describe_missing(const B& b) const {
    std::string names;
    for (std::uint32_t r = 0; r < replicas(); ++r)
      if (!b.has(r))
        names += (names.empty() ? "" : ", ") + std::to_string(r);
    return "the " + std::string{B::name} + " of bucket "
           + std::to_string(b.number) + " misses replica " + names;
  }

  cooperative_collectives collectives_;
  /// A deque does not move its elements when it grows. The context of a replica
  /// must not move, because the replica's fiber holds its address.
  std::deque<local_replica> replicas_;
};

} // namespace

std::unique_ptr<replica_group>
make_cooperative_group(const replica_group_options& options) {
  return std::make_unique<cooperative_group>(options);
}

} // namespace troupe
