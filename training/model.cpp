#include "troupe/training/model.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/flight/flight_recorder.hpp"
#include "troupe/actors/group/recovering_group.hpp"
#include "troupe/tensors/context.hpp"
#include "troupe/training/checkpoint/saved_model.hpp"
#include "troupe/training/checkpoint/weights.hpp"
#include "troupe/training/loop/audit/equal_copies.hpp"
#include "troupe/training/loop/audit/worker_consistency.hpp"
#include "troupe/training/loop/fit/evaluate.hpp"
#include "troupe/training/loop/fit/fit_loop.hpp"
#include "troupe/training/loop/model/model_state.hpp"
#include "troupe/training/strategies/calls/host_collectives.hpp"
#include "troupe/training/strategies/calls/job_call.hpp"
#include "troupe/training/strategies/calls/job_failure.hpp"
#include "troupe/training/strategies/calls/step_callback.hpp"
#include "troupe/training/support/sha256.hpp"

#include <bit>
#include <stdexcept>
#include <utility>

namespace troupe {

// `weights_sha256` and a saved model's file use little-endian floats. Both copy
// the floats from memory unchanged.
static_assert(std::endian::native == std::endian::little);

namespace {

/// @errors throws std::invalid_argument if nothing would be saved.
void check(const periodic_save& save) {
  if (save.file.empty())
    throw std::invalid_argument("save: the file has no name; give one");
  if (save.steps == 0 && save.epochs == 0)
    throw std::invalid_argument("save: \"" + save.file.string()
                                + "\" would never be saved; give steps or "
                                  "epochs");
}

std::shared_ptr<strategy_state> current_model_strategy() {
  const auto* scope = current_execution_scope();
  if (scope && scope->replica)
    throw std::logic_error(
      "a model was constructed in a replica's function; construct it "
      "in the strategy's scope, outside of run()");
  return get_strategy().state();
}

/// Sets the seed of random ops during its lifetime.
class seed_scope {
public:
  explicit seed_scope(std::uint64_t seed)
    : previous_{std::exchange(current_context().random.seed, seed)} {}
  ~seed_scope() { current_context().random.seed = previous_; }
  seed_scope(const seed_scope&) = delete;
  seed_scope& operator=(const seed_scope&) = delete;

private:
  std::uint64_t previous_;
};

/// @errors throws std::logic_error in a replica's function.
void require_cross_replica(const std::string& function) {
  const auto* scope = current_execution_scope();
  if (scope && scope->replica)
    throw std::logic_error(
      function
      + " was called in a replica's function; call it outside of run()");
}

/// The strategy tells the model when the replicas of this process change.
std::shared_ptr<model_state> observing(std::shared_ptr<model_state> state) {
  state->strategy->observe(state);
  return state;
}

} // namespace

model::model(const models::model_description& architecture,
             const update_rule& rule, const model_options& options)
  : state_{observing(std::make_shared<model_state>(
    architecture, rule, models::find_loss(options.loss), options.seed,
    current_model_strategy(), options.precision))} {
  state_->net.initialize(state_->model_parameters, options.seed);
}

model::model(std::unique_ptr<model_state> state)
  : state_{observing(std::move(state))} {}
model::~model() = default;
model::model(model&&) noexcept = default;
model& model::operator=(model&&) noexcept = default;

history model::fit(const data::dataset& batches, const fit_options& options) {
  check_no_step_callback(*state_->strategy, "fit");
  if (options.save)
    check(*options.save);
  state_->steps += state_->loop_optimizer.take_updates();
  return troupe::fit(state_, batches, options,
                     [&] { save(options.save->file, options.save->note); });
}

history model::fit(const distributed_dataset& batches,
                   const fit_options& options) {
  if (batches.run_strategy().state() != state_->strategy)
    throw std::logic_error(
      "the dataset was distributed over the " + batches.run_strategy().name()
      + " strategy, but the model was made in the scope of "
        "another, the "
      + state_->strategy->name + " strategy");
  return fit(batches.batches(), options);
}

evaluation model::evaluate(const data::dataset& batches,
                           const evaluate_options& options) {
  check_no_step_callback(*state_->strategy, "evaluate");
  const auto metrics = metrics_of(*state_->loss, options.metrics);
  verify_evaluations_match(*state_, batches, metrics);
  return troupe::evaluate(state_, batches, metrics);
}

tensor model::predict(const models::model_inputs& inputs) const {
  check_no_step_callback_of(*state_->strategy, state_.get(), "predict");
  state_->check_readable();
  return troupe::predict(*state_, inputs);
}

tensor model::predict(const data::dataset& batches) const {
  check_no_step_callback_of(*state_->strategy, state_.get(), "predict");
  state_->check_readable();
  return troupe::predict(*state_, batches);
}

tensor model::operator()(const models::model_inputs& inputs,
                         const models::forward_options& options) const {
  const auto* scope = current_execution_scope();
  const auto are_different = [](const strategy_state& a,
                                const strategy_state& b) {
    // The default strategies of all threads count as one strategy.
    return &a != &b && !(a.is_default && b.is_default);
  };
  if (scope && scope->replica
      && are_different(*scope->strategy, *state_->strategy))
    throw std::logic_error(
      "a model of the " + state_->strategy->name
      + " strategy was called in a run of another, the " + scope->strategy->name
      + " strategy; construct it in the scope of the strategy that runs it");
  if (!scope || !scope->replica) { // a run of an excluded process ends itself
    check_no_step_callback_of(*state_->strategy, state_.get(), "the model");
    state_->check_readable();
  }
  const seed_scope dropout_seed{state_->seed};
  return state_->net.forward(inputs, state_->variables(), options);
}

troupe::optimizer& model::optimizer() {
  return state_->loop_optimizer;
}

const std::vector<variable>& model::variables() const {
  return state_->model_parameters.variables();
}

const models::model_description& model::description() const {
  return state_->net.description();
}

strategy model::made_in() const {
  return strategy{state_->strategy};
}

const std::string& model::loss() const {
  return state_->loss->name;
}

std::uint64_t model::seed() const {
  return state_->seed;
}

models::precision model::precision() const {
  return state_->net.precision();
}

std::uint64_t model::steps() const {
  return state_->loop_optimizer.steps();
}

std::string model::summary() const {
  return models::summary(state_->net);
}

std::string model::weights_sha256() const {
  state_->check_no_fit_step("weights_sha256");
  state_->check_readable();
  sha256 hash;
  const auto flat = state_->model_parameters.values(0).to({});
  for (std::size_t i = 0; i < variables().size(); ++i) {
    const auto begin = state_->model_parameters.offset(i);
    const auto one =
      flat.range(begin, begin + variables()[i].dims().elements());
    hash.add(std::as_bytes(one.data<float>()));
  }
  return to_hex(hash.finish());
}

void model::save(const std::filesystem::path& file,
                 const std::string& note) const {
  const auto write = [&] {
    // The file belongs to those that go on with the job.
    if (state_->strategy->group->is_excluded()
        || !save_model(*state_, file, note))
      return;
    record_event(
      state_->strategy->recorder,
      {.kind = flight_event_kind::checkpoint_saved, .text = file.string()});
  };
  check_no_step_callback(*state_->strategy, "save");
  state_->check_no_fit_step("save");
  throw_if_excluded(*state_->strategy);
  try {
    check_equal_copies(*state_, "save", state_->strategy->callback_timeout);
  } catch (const job_error& e) {
    // If the other workers are lost, the chief may have the only copy of the
    // model. It writes the file before it throws the error. If they have made
    // another call, its copy need not be equal to theirs.
    if (state_->strategy->placement.process == 0
        && !state_->strategy->lacks_state && !is_call_mismatch(e))
      write();
    throw;
  }
  run_on_chief(state_->strategy, write, "save (the file)");
}

std::filesystem::path
model::save_after_failure(const std::filesystem::path& file,
                          const std::string& note) const {
  state_->check_no_fit_step("save_after_failure");
  const auto& state = *state_->strategy;
  const auto* const recovers =
    dynamic_cast<const recovering_group*>(state.group.get());
  const bool others_go_on = state.group->is_excluded()
                            && !(recovers && recovers->may_have_last_state());
  if (state.lacks_state || state.has_stuck_replica || state_->is_suspect
      || others_go_on)
    return {};
  auto name = file;
  name += ".view-" + std::to_string(state.group->view_id()) + "."
          + std::to_string(state.placement.process);
  if (!save_model(*state_, name, note))
    return {};
  record_event(state.recorder, {.kind = flight_event_kind::checkpoint_saved,
                                .text = name.string()});
  return name;
}

model model::load(const std::filesystem::path& file) {
  return model{load_model(file, current_model_strategy())};
}

void model::set_weights(const std::string& name, const tensor& value) {
  throw_if_excluded(*state_->strategy);
  require_cross_replica("set_weights");
  state_->check_no_fit_step("set_weights");
  troupe::set_weights(*state_, name, value);
  state_->broadcast_copy(0);
}

std::vector<std::string>
model::load_weights(const std::filesystem::path& file,
                    const std::function<bool(const std::string&)>& only) {
  throw_if_excluded(*state_->strategy);
  require_cross_replica("load_weights");
  state_->check_no_fit_step("load_weights");
  auto names = troupe::load_weights(*state_, file, only);
  state_->broadcast_copy(0);
  return names;
}

const std::string& model::note() const {
  return state_->note;
}

bool model::interrupted() const {
  return state_->interrupted && !state_->interrupted->is_complete;
}

bool model::completed() const {
  return state_->interrupted && state_->interrupted->is_complete;
}

bool model::interrupted_between_epochs() const {
  return interrupted() && state_->interrupted->next_batch.index == 0;
}

std::uint64_t model::epochs_done() const {
  return state_->interrupted ? state_->interrupted->epochs_done() : 0;
}

} // namespace troupe
