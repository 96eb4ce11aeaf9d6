#pragma once

#include "troupe/models/description.hpp"
#include "troupe/models/forward_options.hpp"
#include "troupe/tensors/update_rules.hpp"
#include "troupe/tensors/variable.hpp"
#include "troupe/training/loop/fit.hpp"
#include "troupe/training/strategies/distributed_dataset.hpp"

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

struct model_state;

struct model_options {
  std::uint64_t seed = 1; ///< Seed of the initial weights and of dropout.
  /// Name of a loss; models/losses.hpp lists them.
  std::string loss = "softmax_cross_entropy";
};

/// A network with its parameters, its optimizer and its loss. It belongs to the
/// strategy in whose scope it was constructed: each device of that strategy has
/// a copy of the parameters.
class model {
public:
  /// @errors throws std::invalid_argument for an invalid description and for an
  ///         unknown loss; std::logic_error in a replica's function.
  model(const models::model_description& architecture, const update_rule& rule,
        const model_options& options = {});
  ~model();
  model(model&&) noexcept;
  model& operator=(model&&) noexcept;

  /// Trains on a batched dataset. Each batch is the global batch, divided over
  /// the replicas. The gradient is the sum over the examples of all replicas
  /// divided by their number, so a short last batch has the weight of its
  /// examples.
  /// @returns an entry for each complete epoch.
  /// @errors throws std::invalid_argument for data that does not fit the model
  ///         and for invalid options; std::runtime_error with the step for a
  ///         loss that is not finite (fit.hpp), and for unreadable data;
  ///         `job_error` if a replica waits longer than a timeout;
  ///         std::logic_error that names a variable whose copies differ between
  ///         replicas.
  history fit(const data::dataset& batches, const fit_options& options = {});
  history fit(const distributed_dataset& batches,
              const fit_options& options = {});

  /// Returns loss and accuracy over a batched dataset, computed on all
  /// replicas.
  /// @errors as `fit`.
  evaluation evaluate(const data::dataset& batches);

  /// Returns the outputs of the network: for classifiers scores before the
  /// softmax. No tape records them.
  /// @shape inputs [n, input...] float32
  /// @returns [n, output...] float32
  /// @errors throws std::logic_error while a tape records `inputs`; call the
  ///         model for a gradient.
  tensor predict(const tensor& inputs) const;
  tensor predict(const data::dataset& batches) const;

  /// Applies the network with this replica's copy of the parameters; a tape
  /// records it. `model(x, {.training = true})` is the call of a training step:
  /// it enables dropout. `fit`, `evaluate` and `predict` set `training`
  /// themselves.
  /// @errors throws std::logic_error in a run of another strategy.
  tensor operator()(const tensor& inputs,
                    const models::forward_options& options = {}) const;

  const std::vector<variable>& variables() const;
  const models::model_description& description() const;
  strategy made_in() const;
  std::uint64_t seed() const;
  std::uint64_t steps() const; ///< Updates so far.

  /// Returns a table of layers, output shapes and parameters.
  std::string summary() const;

  /// Returns the SHA-256 over all parameters in order, as little-endian
  /// float32.
  std::string weights_sha256() const;

  /// Writes the model to a file, with the position of an interrupted fit
  /// (docs/formats.md). The file appears complete or not at all. In a job of
  /// several workers all of them must call it: the chief writes, and the file
  /// exists when the call returns on any worker.
  /// @param note text that `note` returns after loading.
  /// @errors throws std::runtime_error that names the file, on all workers;
  ///         std::logic_error that names a variable whose copies differ between
  ///         replicas, and then writes nothing. If the other workers do not
  ///         respond, the chief writes the file and `job_error` is thrown.
  void save(const std::filesystem::path& file,
            const std::string& note = {}) const;

  /// Reads a file written by `save` into the current strategy, which may differ
  /// from the one it was saved in.
  /// @errors throws std::runtime_error that names the file. Sizes in the file
  ///         are checked before memory is allocated for them.
  static model load(const std::filesystem::path& file);

  const std::string& note() const;

  /// True if `fit` can continue with `resume`.
  bool interrupted() const;

  /// Complete epochs of the interrupted fit; 0 if no fit was interrupted.
  std::uint64_t epochs_done() const;

  /// For the library's own use.
  explicit model(std::unique_ptr<model_state> state);

private:
  std::shared_ptr<model_state> state_;
};

} // namespace troupe
