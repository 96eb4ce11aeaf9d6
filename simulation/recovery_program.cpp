#include "troupe/simulation/recovery_program.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/models/layers.hpp"
#include "troupe/models/losses.hpp"
#include "troupe/tensors/context.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/random.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/training/strategies/distributed_dataset.hpp"
#include "troupe/training/strategies/training_loop.hpp"

#include <cstdio>

namespace troupe::simulation {

namespace {

constexpr std::int64_t rows = 80, batch_rows = 16, inputs = 4, classes = 3;
constexpr std::uint64_t epoch_steps = rows / batch_rows;
constexpr std::uint64_t fit_epochs = 2; // of each of the two fits
constexpr std::uint64_t loop_epochs = 2 * fit_epochs;
static_assert(loop_epochs * epoch_steps == recovery_steps);

data::dataset make_data(std::uint64_t seed, std::int64_t count) {
  random_stream draw{{.seed = seed}};
  tensor x{{count, inputs}}, labels{{count}, dtype::int32};
  for (auto& e : x.mutable_data<float>())
    e = draw.uniform(-1, 1);
  for (auto& e : labels.mutable_data<std::int32_t>())
    e = static_cast<std::int32_t>(draw.below(classes));
  return {std::move(x), std::move(labels), classes};
}

const data::dataset& training_data() {
  static const auto all = make_data(1, rows);
  return all;
}

const data::dataset& validation_data() {
  static const auto all = make_data(2, 20);
  return all;
}

const models::model_description& network() {
  static const models::model_description tiny{
    "tiny",
    {inputs},
    models::stack(models::dense{5, activation::relu}, models::dropout{0.2f},
                  models::dense{classes})};
  return tiny;
}

void add_text(std::string& out, std::initializer_list<double> values) {
  for (const auto x : values) {
    char text[40];
    std::snprintf(text, sizeof text, "%a ", x);
    out += text;
  }
  out += '\n';
}

/// A program in one process.
class program_run {
public:
  program_run(const strategy& on, const program_hooks& hooks,
              program_result& out)
    : on_{on}, hooks_{hooks}, out_{out}, scope_{on.scope()} {}

  void run(job_program program) {
    try {
      make_calls(program);
    } catch (const job_error&) {
      if (hooks_.on_failure)
        hooks_.on_failure(trained_);
      throw;
    }
  }

private:
  void make_calls(job_program program) {
    pause();
    const bool is_complete =
      program == job_program::fits ? run_fits() : run_loop(program);
    if (!is_complete)
      return;
    const auto copies = on_.local_replica_ids().size();
    for (std::uint32_t i = 0; i < copies; ++i) {
      current_context().copy_index = i;
      for (const auto& v : trained_.variables())
        out_.weights.push_back(v.value().clone());
    }
    current_context().copy_index = 0;
    pause();
  }

  void pause() const {
    if (hooks_.in_user_code)
      hooks_.in_user_code();
  }
  void save() const {
    if (hooks_.save)
      hooks_.save(trained_);
  }
  void tell(const told_step& step, bool repeated) const {
    if (hooks_.on_step)
      hooks_.on_step(step, repeated);
  }

  // -- fits -------------------------------------------------------------------

  /// @returns false if this process has left.
  bool run_fits() {
    fit_options options;
    options.epochs = fit_epochs;
    options.prefetch = hooks_.prefetch;
    options.leave = hooks_.leave;
    options.validation = validation_data().batch(10);
    callback record;
    record.on_step = [this](const step_record& x) {
      pause();
      tell({x.step, x.examples, x.loss}, x.repeated);
    };
    record.on_epoch_end = [this](const epoch_record&) {
      pause();
      save();
    };
    options.callbacks.push_back(record);
    options.early_stopping = early_stopping{.patience = 10};
    if (!fit(options))
      return false;
    pause();
    evaluate();
    pause();
    options.early_stopping.reset();
    return fit(options);
  }

  bool fit(const fit_options& options) {
    const auto history =
      trained_.fit(training_data().shuffle().batch(batch_rows), options);
    for (const auto& x : history.epochs)
      add_text(out_.text,
               {double(x.epoch), double(x.steps), double(x.examples), x.loss,
                x.accuracy, x.validation_loss, x.validation_accuracy});
    out_.end = history.end;
    return out_.end == fit_end::done;
  }

  void evaluate() {
    const auto result = trained_.evaluate(validation_data().batch(8));
    add_text(out_.text, {double(result.examples), result.loss});
  }

  // -- loops ------------------------------------------------------------------

  bool run_loop(job_program program) {
    const auto batches =
      on_.distribute(training_data().shuffle().batch(batch_rows));
    if (program == job_program::joinable_loop) {
      for (const auto& step :
           on_.loop("train", batches, {.epochs = loop_epochs}))
        make_iteration(step.number, step.values);
    } else {
      std::uint64_t number = 0;
      for (std::uint64_t epoch = 0; epoch < loop_epochs; ++epoch)
        for (const auto& values : batches)
          make_iteration(number++, values);
    }
    pause();
    evaluate();
    pause();
    save();
    return true;
  }

  void make_iteration(std::uint64_t number, const per_replica<batch>& values) {
    pause();
    const auto losses = on_.run(
      [this](replica_context& self, const batch& mine) {
        tape t;
        const auto loss =
          models::cross_entropy(trained_(mine.inputs, {.training = true}),
                                mine.labels)
          / mine.global_rows;
        const auto gradients = t.gradient(loss, trained_.variables());
        trained_.optimizer().apply(self.all_reduce(sum, gradients),
                                   trained_.variables());
        return loss.detach();
      },
      values);
    // If a process is lost now, its replicas' losses are known to the others.
    pause();
    const auto loss = on_.reduce(sum, losses, {0}).item<float>();
    auto examples = std::uint64_t(batch_rows);
    if (number % epoch_steps == epoch_steps - 1) {
      pause();
      examples = std::uint64_t(on_.gather(losses, 0).size());
    }
    tell({number, examples, loss}, false);
  }

  const strategy on_;
  const program_hooks& hooks_;
  program_result& out_;
  const strategy_scope scope_;
  model trained_{network(), sgd{.learning_rate = 0.1f, .momentum = 0.9f}};
};

} // namespace

std::uint64_t user_code_pieces(job_program program) {
  if (program == job_program::fits)
    return 2 + recovery_steps + 2 * fit_epochs + 2;
  return 2 + 2 * recovery_steps + loop_epochs + 2;
}

void run_program(job_program program, const strategy& on,
                 const program_hooks& hooks, program_result& out) {
  program_run{on, hooks, out}.run(program);
}

} // namespace troupe::simulation
