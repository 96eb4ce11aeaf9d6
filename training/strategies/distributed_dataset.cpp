#include "troupe/training/strategies/distributed_dataset.hpp"

#include "troupe/training/strategies/calls/job_failure.hpp"
#include "troupe/training/strategies/replica/strategy_state.hpp"
#include "troupe/training/strategies/replica/text_codec.hpp"
#include "troupe/training/support/data_identity.hpp"

#include <atomic>
#include <stdexcept>
#include <string>
#include <utility>

namespace troupe {

/// Number of epochs of a dataset that were begun. A process that joins the job
/// gets it with the state of the models. The first step after the begin of an
/// epoch compares the data of all processes.
class epoch_counter final : public placement_observer {
public:
  epoch_counter(const data::dataset& batches, const batch_shares& shares)
    : batches_{batches}, shares_{shares} {}

  void on_new_placement() override {}
  std::string state_text() override { return encode_text(begun.load()); }
  std::vector<tensor> state_tensors(const std::string&) override { return {}; }
  void on_copied(const std::string& text) override {
    std::uint64_t other = 0;
    if (!decode_text(text, other))
      throw job_error(ec::protocol,
                      "a worker sent a malformed number of epochs");
    begun = other;
  }
  std::string description() const override {
    if (description_.empty())
      description_ = describe(identify(batches_))
                     + "replica shares: " + shares_text(shares_) + '\n';
    return description_;
  }
  std::string unchecked_description() const override {
    return is_unchecked ? description() : std::string{};
  }
  void on_checked() override { is_unchecked = false; }

  std::atomic<std::uint64_t> begun = 0;
  /// An epoch was begun, and no step was made since then.
  std::atomic<bool> is_unchecked = false;

private:
  const data::dataset batches_;
  const batch_shares shares_;
  mutable std::string description_; ///< Empty: it is not known yet.
};

namespace {

/// Returns a batch with all of its tensors on a device.
batch copied_to(const device& on, batch rows) {
  if (on.kind == device_kind::cpu)
    return rows;
  return transform_tensors(rows, [&](const tensor& x) { return x.to(on); });
}

/// The rows of one batch that belong to replicas of lost processes.
class rows_of_batch final : public value_source<batch> {
public:
  /// @param at position of the batch.
  rows_of_batch(std::weak_ptr<strategy_state> state,
                const data::dataset& batches, const data::position& at,
                const batch_shares& shares)
    : state_{std::move(state)}, batches_{batches}, at_{at}, shares_{shares} {}

  bool provides(std::uint32_t replica) const override {
    const auto state = state_.lock();
    return state && state->placement.hosts(replica);
  }

private:
  batch make(std::uint32_t replica, const char* call) const override {
    const auto state = state_.lock();
    const auto replicas = state ? state->replicas : 0;
    // Reads as a process that hosts this replica only.
    std::vector<placement::id_list> hosts(2);
    for (std::uint32_t r = 0; r < replicas; ++r)
      hosts[r == replica ? 0 : 1].push_back(r);
    const local_placement alone{placement{hosts}, 0};
    const auto rows =
      local_batches{batches_.prefetch(0), at_, alone, shares_}.next();
    if (!rows)
      throw std::runtime_error(std::string{call}
                               + ": the dataset gives fewer batches than "
                                 "before, so the rows of replica "
                               + std::to_string(replica)
                               + " cannot be read again");
    const auto index = state->placement.job.index_of(replica);
    return copied_to(state->device_of(index),
                     rows->batch_of_replica(replica, replicas));
  }

  const std::weak_ptr<strategy_state> state_;
  const data::dataset batches_;
  const data::position at_;
  const batch_shares shares_;
};

} // namespace

distributed_dataset::distributed_dataset(strategy over, data::dataset batches,
                                         batch_shares shares)
  : strategy_{std::move(over)},
    batches_{std::move(batches)},
    shares_{std::move(shares)},
    epochs_begun_{std::make_shared<epoch_counter>(batches_, shares_)} {
  check_replica_shares(shares_, strategy_.num_replicas_in_sync());
  const auto* scope = current_execution_scope();
  if (strategy_.state()->spans_processes() && !(scope && scope->replica))
    strategy_.state()->observe(epochs_begun_);
}

std::uint64_t distributed_dataset::begin_epoch() const {
  epochs_begun_->is_unchecked = true;
  return epochs_begun_->begun.fetch_add(1);
}

std::string distributed_dataset::description() const {
  return epochs_begun_->description();
}

std::uint64_t distributed_dataset::epochs_begun() const {
  return epochs_begun_->begun;
}

void distributed_dataset::set_epochs_begun(std::uint64_t epochs) const {
  epochs_begun_->begun = epochs;
}

distributed_iterator distributed_dataset::begin() const {
  return distributed_iterator{
    std::make_unique<steps>(iterate({begin_epoch(), 0}))};
}

distributed_dataset::steps
distributed_dataset::iterate(const data::position& start) const {
  return {strategy_, batches_, start, shares_};
}

distributed_dataset::steps::steps(const strategy& over,
                                  const data::dataset& batches,
                                  const data::position& start,
                                  const batch_shares& shares)
  : strategy_{over},
    batches_{batches},
    shares_{shares},
    view_{over.state()->views},
    local_{batches, start, over.state()->placement, shares} {}

std::optional<per_replica<batch>> distributed_dataset::steps::next() {
  const auto& state = strategy_.state();
  throw_if_excluded(*state);
  const auto at = local_.save();
  if (std::exchange(view_, state->views) != state->views)
    local_ = local_batches{batches_, at, state->placement, shares_};
  const auto rows = local_.next();
  if (!rows)
    return std::nullopt;
  std::vector<batch> parts;
  for (const auto id : state->placement.replicas())
    parts.push_back(copied_to(state->device_of(parts.size()),
                              rows->batch_of_replica(id, state->replicas)));
  std::shared_ptr<const value_source<batch>> others;
  if (state->spans_processes())
    others = std::make_shared<rows_of_batch>(state, batches_, at, shares_);
  return per_replica<batch>{std::move(parts), state->placement.replicas(),
                            std::move(others)};
}

distributed_iterator::distributed_iterator(distributed_dataset::steps& steps)
  : steps_{&steps}, current_{steps_->next()} {}

distributed_iterator::distributed_iterator(
  std::unique_ptr<distributed_dataset::steps> owned_steps)
  : owned_steps_{std::move(owned_steps)},
    steps_{owned_steps_.get()},
    current_{steps_->next()} {}

distributed_iterator::distributed_iterator(distributed_iterator&&) noexcept =
  default;
distributed_iterator&
distributed_iterator::operator=(distributed_iterator&&) noexcept = default;
distributed_iterator::~distributed_iterator() = default;

distributed_iterator& distributed_iterator::operator++() {
  current_ = steps_->next();
  return *this;
}

} // namespace troupe
