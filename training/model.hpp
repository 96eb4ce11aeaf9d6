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
  std::uint64_t seed = 1; ///< Of the first weights, and of dropout.
  /// models/losses.hpp lists them.
  std::string loss = "softmax_cross_entropy";
};

/// A network with its parameters, its optimizer and its loss, in the strategy
/// in whose scope it was made: each of that strategy's devices has a copy of
/// the parameters.
class model {
public:
  /// @errors throws std::invalid_argument for a description that no network can
  ///         be built from, and for an unknown loss; std::logic_error in a
  ///         replica's function.
  model(const models::model_description& what, const update_rule& by,
        const model_options& options = {});
  ~model();
  model(model&&) noexcept;
  model& operator=(model&&) noexcept;

  /// Trains on a batched dataset; each batch is the global one, cut over the
  /// replicas. The gradient is the sum over the examples of all replicas
  /// divided by their number, so a short last batch weighs what it should.
  /// @returns an entry for each complete epoch.
  /// @errors throws std::invalid_argument for data that does not fit the model
  ///         and for options that cannot be; std::runtime_error with the step
  ///         for a loss that is not a number (fit.hpp), and for data that
  ///         cannot be read; `failure` if a replica waits too long for another;
  ///         std::logic_error that names a variable of which replicas hold
  ///         different copies.
  history fit(const data::dataset& batches, const fit_options& options = {});
  history fit(const distributed_dataset& batches,
              const fit_options& options = {});

  /// Loss and accuracy over a batched dataset, on all replicas.
  /// @errors as `fit`.
  evaluation evaluate(const data::dataset& batches);

  /// What the network gives: for classifiers scores, not yet through a softmax.
  /// No tape records them.
  /// @shape inputs  [n, input...] float32
  /// @returns [n, output...] float32
  /// @errors throws std::logic_error while a tape records `inputs`; call the
  ///         model for a gradient.
  tensor predict(const tensor& inputs) const;
  tensor predict(const data::dataset& batches) const;

  /// The network on this replica's copy of the parameters; a tape records it.
  /// `model(x, {.training = true})` is the call of a training step: with it
  /// dropout drops. `fit`, `evaluate` and `predict` choose for themselves.
  /// @errors throws std::logic_error in a run of another strategy.
  tensor operator()(const tensor& inputs,
                    const models::forward_options& how = {}) const;

  const std::vector<variable>& variables() const;
  const models::model_description& description() const;
  strategy made_in() const;
  std::uint64_t seed() const;
  std::uint64_t steps() const; ///< Updates so far.

  /// The familiar table of layers, output shapes and parameters.
  std::string summary() const;

  /// SHA-256 over all parameters in order, as little-endian float32.
  std::string weights_sha256() const;

  /// Writes all of it to a file, and where a fit stands that was interrupted
  /// (docs/formats.md). The file appears complete or not at all. Over several
  /// workers all of them call it: the chief writes, and when it returns
  /// anywhere the file is there.
  /// @param note any text that `note` gives back when it was loaded.
  /// @errors throws std::runtime_error with a sentence that names the file, on
  ///         all workers; std::logic_error that names a variable of which
  ///         replicas hold different copies, and then writes nothing. If the
  ///         other workers cannot be asked, the chief writes and `failure` is
  ///         thrown.
  void save(const std::filesystem::path& file,
            const std::string& note = {}) const;

  /// Reads what `save` wrote, into the current strategy; another one than it
  /// was saved in is fine.
  /// @errors throws std::runtime_error with a sentence that names the file;
  /// what
  ///         it claims is checked before anything is allocated for it.
  static model load(const std::filesystem::path& file);

  const std::string& note() const;

  /// Whether `fit` can go on with `resume`.
  bool interrupted() const;

  /// Complete epochs of the fit that was interrupted; 0 if none was.
  std::uint64_t epochs_done() const;

  /// For the library's own use.
  explicit model(std::unique_ptr<model_state> state);

private:
  std::shared_ptr<model_state> state_;
};

} // namespace troupe
