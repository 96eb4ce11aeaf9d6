#include "troupe/training/loop/audit/worker_consistency.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/net/base/text.hpp"
#include "troupe/tensors/base/exact_numbers.hpp"
#include "troupe/training/loop/audit/equal_copies.hpp"
#include "troupe/training/strategies/calls/host_collectives.hpp"
#include "troupe/training/strategies/replica/local_batches.hpp"
#include "troupe/training/strategies/replica/text_codec.hpp"
#include "troupe/training/strategies/replica/worker_difference.hpp"
#include "troupe/training/support/sha256.hpp"

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace troupe {

namespace {

/// Name of the number of each update rule that a loop can change.
constexpr std::string_view learning_rate = "learning_rate";

/// Collects the values that must be equal on all workers, one "name: value" per
/// line.
class fingerprint_text {
public:
  template <class T>
  void add(const char* name, const T& value) {
    text_ << name << ": " << value << '\n';
  }
  void add(const char* name, float value) { add(name, exact_text(value)); }
  void add(const char* name, double value) { add(name, exact_text(value)); }
  void add(const char* name, const hyperparameters& all) {
    text_ << name << ':' << exact_text(all) << '\n';
  }
  /// @param lines each "name: value", with a line feed at its end.
  void add_lines(const std::string& lines) { text_ << lines; }
  std::string text() const { return text_.str(); }

private:
  std::ostringstream text_;
};

std::span<const std::byte> bytes_of(const tensor& x) {
  return {x.raw(), x.bytes()};
}

std::string hash_of_slots(const model_state& state) {
  sha256 hash;
  for (const auto& slot : state.slots[0])
    hash.add(bytes_of(slot.to({})));
  return to_hex(hash.finish());
}

std::string frozen_names(const model_state& state, const fit_options& options) {
  std::string names;
  for (const auto& one : state.variables())
    if (options.trainable && !options.trainable(one))
      names += (names.empty() ? "" : ", ") + one.name();
  return names.empty() ? "none" : names;
}

std::string describe_fit(const model_state& state, const data::dataset& batches,
                         const fit_options& options,
                         const fit_position& position) {
  fingerprint_text fingerprint;
  fingerprint.add_lines(describe_computation(state));
  fingerprint.add("optimizer", state.rule.name());
  auto settings = state.rule.numbers();
  std::erase_if(settings,
                [](const auto& x) { return x.name == learning_rate; });
  fingerprint.add("settings of the optimizer", settings);
  fingerprint.add("metrics", position.metrics);
  fingerprint.add("frozen variables", frozen_names(state, options));
  for (const auto weight : options.class_weights)
    fingerprint.add("class weight", weight);
  fingerprint.add("replica shares", shares_text(options.replica_shares));
  fingerprint.add("seed", state.seed);
  fingerprint.add_lines(
    describe(position.data ? *position.data : identify(batches)));
  fingerprint.add("epoch of the data", position.next_batch.epoch);
  fingerprint.add("first epoch of the data", position.first_epoch);
  fingerprint.add("batches of the epoch done", position.next_batch.index);
  fingerprint.add("hash of the next batch",
                  hash_of_batch(batches, position.next_batch));
  fingerprint.add("epochs", options.epochs);
  fingerprint.add("max_steps", options.max_steps);
  if (const auto& save = options.save) {
    fingerprint.add("steps between saves", save->steps);
    fingerprint.add("epochs between saves", save->epochs);
  }
  fingerprint.add("on_nan", options.on_nan == on_nan::stop ? "stop" : "skip");
  fingerprint.add("audit_steps", options.audit_steps);
  fingerprint.add("on_deviation",
                  options.on_deviation == on_deviation::heal ? "heal" : "stop");
  fingerprint.add("validation", options.validation ? "yes" : "no");
  if (options.validation)
    fingerprint.add_lines(
      describe(identify(*options.validation), " of the validation data"));
  if (const auto& s = options.schedule) {
    fingerprint.add("schedule", s->name());
    fingerprint.add("settings of the schedule", s->numbers());
  }
  if (const auto& e = options.early_stopping) {
    fingerprint.add("early stopping's metric", e->monitor);
    fingerprint.add("early stopping's mode", static_cast<int>(e->mode));
    fingerprint.add("early stopping's patience", e->patience);
    fingerprint.add("early stopping's min_delta", e->min_delta);
    fingerprint.add("early stopping's restore_best", e->restore_best);
  }
  return fingerprint.text();
}

/// What steps before the fit have changed, also those of loops. A worker that
/// joins copies it.
std::string describe_state(const model_state& state,
                           const fit_options& options) {
  fingerprint_text fingerprint;
  fingerprint.add("steps done", state.steps);
  fingerprint.add("learning rate of the optimizer", state.rule.learning_rate());
  if (options.schedule)
    fingerprint.add("learning rate of the next step",
                    options.schedule->at(state.steps));
  fingerprint.add("hash of the optimizer's state", hash_of_slots(state));
  return fingerprint.text();
}

/// What a worker tells the others before a call.
struct worker_text {
  std::string name, description, state, copies;
  std::string rejection; ///< Why the worker cannot begin. Empty: it can.
  std::uint64_t steps =
    0; ///< Updates of its model. No meaning without a state.
};

/// @param call as `job_call::name`.
std::vector<worker_text>
gather_texts(const std::shared_ptr<strategy_state>& strategy,
             const worker_text& own, const char* call) {
  const auto gathered =
    all_gather_text(strategy,
                    encode_text(own.name, own.description, own.state,
                                own.copies, own.rejection, own.steps),
                    {.join_timeout = strategy->callback_timeout, .call = call});
  std::vector<worker_text> all(gathered.size());
  for (std::size_t w = 0; w < all.size(); ++w)
    if (!decode_text(gathered[w], all[w].name, all[w].description, all[w].state,
                     all[w].copies, all[w].rejection, all[w].steps))
      throw job_error(ec::protocol,
                      "a worker sent a malformed description of its call");
  return all;
}

/// Compares the copies of all replicas, and two texts of each worker.
/// @param description what the worker does.
/// @param state_text  describes the state. Empty: there is none, as in a worker
///                    that joins.
/// @param call        as `job_call::name`.
/// @param subject     what the workers do, in the error text.
/// @returns what the workers have told.
std::vector<worker_text> verify_equal(const model_state& state,
                                      const std::string& description,
                                      const std::string& state_text,
                                      const char* call, const char* subject) {
  const auto& strategy = state.strategy;
  const bool lacks_state = strategy->lacks_state;
  const auto all = gather_texts(strategy,
                                {strategy->own_name(),
                                 description,
                                 lacks_state ? "" : state_text,
                                 lacks_state ? "" : describe_copies(state),
                                 {},
                                 state.steps},
                                call);
  for (const auto& x : all)
    if (!x.rejection.empty())
      throw std::invalid_argument(net::printable(x.name) + " cannot begin "
                                  + call + ": "
                                  + net::printable_lines(x.rejection));
  const auto check = [&](const worker_text& x) {
    for (const auto field : {&worker_text::description, &worker_text::state})
      if (x.*field != all[0].*field && !(x.*field).empty()
          && !(all[0].*field).empty())
        throw std::invalid_argument(
          net::printable(x.name) + " has "
          + difference(net::printable(all[0].name), all[0].*field, x.*field)
          + "; all workers must " + subject);
  };
  for (const auto& x : all)
    check(x);
  if (lacks_state && strategy->lacks_state) // the texts are those of others
    check({"this worker, which joins the running job,",
           description,
           {},
           {},
           {},
           0});
  std::vector<std::string> copies, names;
  for (const auto& x : all) {
    copies.push_back(x.copies);
    names.push_back(x.name);
  }
  compare_copies(copies, names);
  return all;
}

} // namespace

void check_for_all_workers(const model_state& state, const char* call,
                           const std::function<void()>& check) {
  const auto& strategy = state.strategy;
  try {
    check();
  } catch (const std::exception& e) {
    if (!strategy->is_one_process && !strategy->lacks_state)
      try {
        gather_texts(strategy, {strategy->own_name(), {}, {}, {}, e.what(), 0},
                     call);
      } catch (const std::exception&) { // the first error says more
      }
    throw;
  }
}

void verify_workers_match(model_state& state, const data::dataset& batches,
                          const fit_options& options,
                          const fit_position& position) {
  if (state.strategy->is_one_process)
    return check_equal_copies(state, "fit");
  std::string description;
  check_for_all_workers(state, "fit", [&] {
    description = describe_fit(state, batches, options, position);
  });
  const bool lacks_state = state.strategy->lacks_state;
  const auto all =
    verify_equal(state, description, describe_state(state, options), "fit",
                 "train the same model on the same data with the same options");
  if (!lacks_state)
    return;
  // The steps of the fit continue those of the others, which may have made
  // updates in loops.
  if (const auto other = std::ranges::find_if(
        all, [](const worker_text& x) { return !x.state.empty(); });
      other != all.end())
    state.steps = other->steps;
}

void verify_evaluations_match(const model_state& state,
                              const data::dataset& batches,
                              const metric_list& metrics) {
  if (state.strategy->is_one_process)
    return check_equal_copies(state, "evaluate",
                              state.strategy->callback_timeout);
  fingerprint_text fingerprint;
  check_for_all_workers(state, "evaluate", [&] {
    check_data(state, batches, "the evaluation data");
    fingerprint.add_lines(describe_computation(state));
    fingerprint.add("metrics", metrics.description());
    fingerprint.add_lines(describe(identify(batches)));
  });
  verify_equal(state, fingerprint.text(), {}, "evaluate",
               "evaluate the same model on the same data with the same "
               "metrics");
}

} // namespace troupe
