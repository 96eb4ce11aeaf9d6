#include "troupe/actors/core/error_code.hpp"
#include "troupe/actors/core/fiber.hpp"
#include "troupe/actors/group/sequential_group.hpp"
#include "troupe/strategies/tree/reduction.hpp"

#include <algorithm>
#include <deque>
#include <limits>

namespace troupe {

namespace {

enum class kind { sum, gather };

/// The collectives of the current step among all replicas.
struct exchange {
  struct bucket {
    static constexpr std::string_view name = "sum";
    bool has(std::uint32_t replica) const { return machine.has(replica); }

    std::uint32_t number = 0;
    tree::tree_sum machine;
    tensor sum; ///< Empty until the sum is complete.
  };
  struct collection {
    static constexpr std::string_view name = "gather";
    bool has(std::uint32_t replica) const { return bool(parts[replica]); }

    std::uint32_t number = 0;
    std::uint32_t arrived = 0;
    tensors parts; ///< By replica. Empty tensor: not contributed yet.
  };

  std::uint64_t step = 0, epoch = 0;
  std::uint32_t replicas = 1;
  pooled<bucket> buckets;
  pooled<collection> collections;
  /// Number of contributions so far; each may let a parked replica continue.
  std::uint64_t news = 0;

  bucket& of(std::uint32_t number) {
    const auto it = std::ranges::find(buckets, number, &bucket::number);
    if (it != buckets.end())
      return *it;
    buckets.push_back(
      {number, tree::tree_sum{{epoch, step, number, replicas}}, {}});
    return buckets.back();
  }

  collection& collected(std::uint32_t number) {
    const auto it = std::ranges::find(collections, number, &collection::number);
    if (it != collections.end())
      return *it;
    collections.push_back({number, 0, tensors(replicas)});
    return collections.back();
  }

  void bring(std::uint32_t number, std::uint32_t replica, const tensor& part,
             const terms& said) {
    auto& to = of(number);
    if (to.sum || to.has(replica))
      refuse_bucket("bucket ", number, " was contributed to twice in a step");
    auto what =
      to.machine.on({{epoch, step, 0, replica, number, 0, 1, said}}, part);
    if (std::holds_alternative<tree::adding>(what))
      what = to.machine.work(std::numeric_limits<std::size_t>::max());
    if (auto* broken = std::get_if<tree::fault>(&what))
      throw std::logic_error(broken->why);
    if (auto* done = std::get_if<tree::finished>(&what))
      to.sum = std::move(done->sum);
    ++news;
  }
};

class turn_step final : public step_context {
public:
  void contribute(std::uint32_t bucket, const tensor& part) override {
    shared->bring(bucket, replica, part, said);
  }

  tensor sum(std::uint32_t bucket) override {
    auto& mine = shared->of(bucket);
    if (!mine.sum && !mine.has(replica))
      refuse_bucket("the sum of bucket ", bucket,
                    " was asked for before a contribution to it");
    waits = {kind::sum, bucket};
    while (!shared->of(bucket).sum) // other replicas may have added buckets
      fiber::park();
    return shared->of(bucket).sum;
  }

  tensors gather(std::uint32_t bucket, const tensor& part) override {
    auto& mine = shared->collected(bucket);
    if (mine.parts[replica])
      refuse_bucket("gather ", bucket, " was called twice in a step");
    mine.parts[replica] = part.clone();
    ++mine.arrived;
    ++shared->news;
    waits = {kind::gather, bucket};
    while (shared->collected(bucket).arrived < replicas)
      fiber::park();
    return shared->collected(bucket).parts;
  }

  void begin_update() override {
    for (const auto& b : shared->buckets)
      if (!b.sum && b.has(replica))
        refuse_bucket("the update began before the sum of bucket ", b.number,
                      " was in");
  }

  exchange* shared = nullptr;
  struct {
    kind what = kind::sum;
    std::uint32_t bucket = 0;
  } waits; ///< The collective that the replica waits for while it is parked.
};

class turns_crew final : public inline_crew {
public:
  explicit turns_crew(const crew_options& options) : inline_crew{options} {
    for (std::uint32_t r = 0; r < options.replicas; ++r) {
      auto& one = members_.emplace_back();
      prepare(one.own, options, r, 0);
      one.at.shared = &shared_;
    }
    shared_.replicas = options.replicas;
  }

protected:
  void run_step(const step_function& fn, std::uint64_t step,
                std::uint64_t epoch) override {
    shared_.step = step;
    shared_.epoch = epoch;
    const leftovers ends{*this};
    for (std::uint32_t r = 0; r < replicas(); ++r) {
      auto& one = members_[r];
      prepare(one.own, options_, r, step);
      prepare(one.at, options_, r, step, epoch);
      one.code.start([&fn, &one] { fn(one.at); });
    }
    while (take_turns()) {
    }
    for (const auto& b : shared_.buckets)
      if (!b.sum)
        stalled(missed(b));
    for (std::uint32_t r = 0; r < replicas(); ++r)
      reports_[r] = members_[r].at.report;
  }

  context& context_of(std::uint32_t replica) override {
    return members_[replica].own;
  }

private:
  struct member {
    context own;
    turn_step at;
    fiber code{&own};
  };

  /// At the end of a step, also by an exception: makes all replicas leave the
  /// step function and releases the contributions.
  struct leftovers {
    explicit leftovers(turns_crew& of) : of{of} {}
    ~leftovers() {
      for (auto& one : of.members_)
        one.code.abort();
      of.shared_.buckets.clear();
      of.shared_.collections.clear();
    }
    turns_crew& of;
  };

  /// Resumes each replica once, until it parks or finishes the step.
  /// @returns true if a replica has not finished the step.
  /// @errors throws `job_error` if no replica can continue.
  bool take_turns() {
    const auto news = shared_.news;
    bool left = false, moved = false;
    for (auto& one : members_) {
      if (one.code.done())
        continue;
      one.code.resume();
      if (one.code.error())
        std::rethrow_exception(one.code.error());
      moved |= one.code.done();
      left |= !one.code.done();
    }
    if (left && !moved && news == shared_.news)
      nobody_moves();
    return left;
  }

  [[noreturn]] void stalled(const std::string& why) {
    throw failure(ec::stalled,
                  "step " + std::to_string(shared_.step) + " stalled: " + why);
  }

  [[noreturn]] void nobody_moves() {
    const auto it = std::ranges::find_if(
      members_, [](const member& x) { return !x.code.done(); });
    const auto [what, bucket] = it->at.waits;
    const auto waiting =
      "replica " + std::to_string(it->at.replica) + " waits, ";
    if (what == kind::sum)
      stalled(waiting + missed(shared_.of(bucket)));
    stalled(waiting + missed(shared_.collected(bucket)));
  }

  template <class B>
  std::string missed(const B& b) const {
    std::string names;
    for (std::uint32_t r = 0; r < replicas(); ++r)
      if (!b.has(r))
        names += (names.empty() ? "" : ", ") + std::to_string(r);
    return "the " + std::string{B::name} + " of bucket "
           + std::to_string(b.number) + " misses replica " + names;
  }

  exchange shared_;
  std::deque<member> members_; ///< A deque, since a context must not move.
};

} // namespace

std::unique_ptr<crew> make_turns_crew(const crew_options& options) {
  return std::make_unique<turns_crew>(options);
}

} // namespace troupe
