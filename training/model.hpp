#pragma once

#include "troupe/models/description.hpp"
#include "troupe/models/forward_options.hpp"
#include "troupe/models/network.hpp"
#include "troupe/models/precision.hpp"
#include "troupe/tensors/optim/update_rules.hpp"
#include "troupe/tensors/variable.hpp"
#include "troupe/training/loop/model/optimizer.hpp"
#include "troupe/training/loop/options/fit_options.hpp"
#include "troupe/training/strategies/distributed_dataset.hpp"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

struct model_state;

struct model_options {
  std::uint64_t seed = 1; ///< Seed of the initial weights and of dropout.
  /// Name of a loss, built in or registered; models/losses.hpp lists them.
  std::string loss = "softmax_cross_entropy";
  /// The dtype in which the layers compute, in training and afterwards.
  models::precision precision = models::precision::float32;
};

/// A network with its parameters, its optimizer and its loss. A model belongs
/// to the strategy in whose scope it is constructed. In a job of one process,
/// all replicas share one copy of the parameters; in a job of several
/// processes, each replica has a copy.
///
/// If the job has excluded this process because the others could not reach it,
/// `fit`, `evaluate`, `predict`, `weights_sha256` and `save` throw `job_error`.
/// So does a call of the model outside of a step. A process that has left its
/// job (`fit_end::left`) can still call `predict`, `weights_sha256` and the
/// model.
class model {
public:
  /// @errors throws std::invalid_argument for an invalid description and for an
  ///         unknown loss; std::logic_error in a replica's function.
  model(const models::model_description& architecture, const update_rule& rule,
        const model_options& options = {});
  ~model();
  model(model&&) noexcept;
  model& operator=(model&&) noexcept;

  /// Trains on a batched dataset. Each batch is a global batch, and the
  /// replicas divide its examples. The gradient of a step is the mean over all
  /// examples of the global batch, also if the last batch is short.
  /// @returns the history, with an entry for each complete epoch.
  /// @errors throws std::invalid_argument if the data does not fit the model or
  ///         an option is invalid. Throws std::runtime_error if a loss or
  ///         gradient is not finite (`on_nan`) or the data is unreadable.
  ///         Throws `job_error` if a replica waits longer than a timeout, and
  ///         std::logic_error if the copies of a variable differ between
  ///         replicas.
  history fit(const data::dataset& batches, const fit_options& options = {});
  history fit(const distributed_dataset& batches,
              const fit_options& options = {});

  /// Returns the loss and the metrics over a batched dataset, computed on all
  /// replicas.
  /// @errors as `fit`.
  evaluation evaluate(const data::dataset& batches,
                      const evaluate_options& options = {});

  /// Computes the outputs of the network, without recording on a tape. The
  /// outputs of a classifier are the scores before the softmax. While `fit`
  /// runs, other threads may call it. Then it reads parameters that updates
  /// write meanwhile, so the outputs can mix those of several steps.
  /// @param inputs numbers [n, input...] float32, and categories if the model
  ///        has any; of a dataset, its tensors "inputs" and "categories".
  /// @returns [n, output...] float32
  /// @errors throws std::logic_error if a tape records `inputs`. To compute a
  ///         gradient, call the model instead. Throws std::logic_error in
  ///         `callback::on_step` of a fit of this model.
  tensor predict(const models::model_inputs& inputs) const;
  tensor predict(const data::dataset& batches) const;

  /// Applies the network with this replica's copy of the parameters. An active
  /// tape records the operations. In a training step, call `model(x, {.training
  /// = true})`, which enables dropout. `fit`, `evaluate` and `predict` set
  /// `training` themselves.
  /// @errors throws std::logic_error in a run of another strategy.
  tensor operator()(const models::model_inputs& inputs,
                    const models::forward_options& options = {}) const;

  /// Returns the optimizer of this model, for a custom training loop. It has
  /// the update rule of this model, and the slots and the number of steps that
  /// `fit` uses and `save` writes. The reference is valid as long as the model
  /// exists.
  troupe::optimizer& optimizer();

  const std::vector<variable>& variables() const;
  const models::model_description& description() const;
  strategy made_in() const;
  const std::string& loss() const; ///< Name of the loss.
  std::uint64_t seed() const;
  models::precision precision() const;
  /// Steps so far, over all fits and custom loops with `optimizer()`.
  std::uint64_t steps() const;

  /// Returns a table of layers, output shapes and parameters.
  std::string summary() const;

  /// Returns the SHA-256 of all parameters in their order, as little-endian
  /// float32.
  /// @errors throws std::logic_error while `fit` runs steps of this model, as
  ///         in `callback::on_step`.
  std::string weights_sha256() const;

  /// Writes the model with the state of its optimizer and, if a fit was
  /// interrupted, its position to a file (docs/formats.md). The file appears
  /// complete or not at all. In a job of several workers, every worker must
  /// call `save`. The chief writes the file, and the file exists when `save`
  /// returns on any worker.
  /// @param note text that `note()` of the loaded model returns.
  /// @errors throws std::runtime_error on all workers if the file cannot be
  ///         written. Throws std::logic_error and writes no file if the copies
  ///         of a variable differ between replicas. Does so also while a run of
  ///         the strategy is active, as in `callback::on_step`. If another
  ///         worker does not respond, the chief writes the file, and then
  ///         `save` throws `job_error`. If another worker has made another
  ///         call, or if the job goes on without this process, `save` throws
  ///         `job_error` and writes no file.
  void save(const std::filesystem::path& file,
            const std::string& note = {}) const;

  /// After the job has failed, that is, after `job_error`: writes the copy of
  /// the model that this process has. Its name is `file` with the suffix
  /// `.view-V.W`. V is the number of the job's last view, and W the number of
  /// this worker. `fit` with `resume` goes on from the file. Each worker of the
  /// job may write one. The one with the most steps saves the most work.
  /// @returns the name. Empty: no file was written. Then the job goes on
  ///          without this process, this process joins and lacks the state, or
  ///          a replica is stuck in a step. Or the copies of the parameters
  ///          differed, or a process of a newer view has written the file.
  /// @errors throws std::runtime_error if the file cannot be written.
  std::filesystem::path save_after_failure(const std::filesystem::path& file,
                                           const std::string& note = {}) const;

  /// Loads a model from a file that `save` wrote. The model belongs to the
  /// current strategy, which may differ from the strategy of the saved model.
  /// The layers compute with the precision of the saved model.
  /// @errors throws std::runtime_error that names the file. `load` checks the
  ///         sizes in the file before it allocates memory for them.
  static model load(const std::filesystem::path& file);

  /// Sets the values of a variable in all copies of this process. Its slots and
  /// the number of steps stay as they are. In a job of several workers, every
  /// worker must call it with the same values. No fit and no run may be active.
  /// @param name of one of `variables()`, such as "dense_1/kernel".
  /// @param value float32 of the shape of the variable. A kernel of a dense
  ///        layer is [in, out], where PyTorch has [out, in].
  /// @errors throws std::invalid_argument that names the variable: there is
  ///         none with this name, or it has another shape or dtype.
  void set_weights(const std::string& name, const tensor& value);

  /// Sets variables to the values that they have in a saved model of any
  /// architecture, as `set_weights` does. Optimizer, steps and position of the
  /// saved model are not read.
  /// @param only selects variables of this model by name. Empty: all.
  /// @returns the names of these variables.
  /// @errors throws std::runtime_error that names the file if it cannot be
  ///         read. Throws std::invalid_argument and changes nothing if no
  ///         variable is selected, or if the file has no variable of this name
  ///         or one of another shape.
  std::vector<std::string>
  load_weights(const std::filesystem::path& file,
               const std::function<bool(const std::string&)>& only = {});

  const std::string& note() const;

  /// Returns true if the last fit was interrupted, so that `fit` can continue
  /// it with `resume`.
  bool interrupted() const;
  /// Returns true if the last fit has completed all its epochs, so that `fit`
  /// can continue it with `resume` and more epochs.
  bool completed() const;
  /// Returns true if it continues with the first batch of an epoch, or if all
  /// epochs are complete.
  bool interrupted_between_epochs() const;

  /// Complete epochs of the last fit if it can be continued, else 0.
  std::uint64_t epochs_done() const;

  /// For the library's own use.
  explicit model(std::unique_ptr<model_state> state);
  const std::shared_ptr<model_state>& state() const { return state_; }

private:
  std::shared_ptr<model_state> state_;
};

} // namespace troupe
