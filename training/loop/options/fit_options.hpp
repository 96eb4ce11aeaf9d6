#pragma once

#include "troupe/data/pipeline/dataset.hpp"
#include "troupe/models/metrics.hpp"
#include "troupe/tensors/optim/schedules.hpp"
#include "troupe/tensors/variable.hpp"
#include "troupe/training/loop/options/history.hpp"
#include "troupe/training/loop/options/progress.hpp"

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace troupe {

/// Names for `early_stopping::monitor`.
namespace monitored_metric {

inline constexpr auto validation_loss = "validation_loss";
inline constexpr auto validation_accuracy = "validation_accuracy";
inline constexpr auto loss = "loss";
inline constexpr auto accuracy = "accuracy";

} // namespace monitored_metric

/// Direction in which a monitored metric improves.
enum class monitor_mode : std::uint8_t {
  automatic, ///< As the metric says (`models::metric::larger_is_better`).
  min,       ///< A smaller value is better.
  max,       ///< A larger value is better.
};

/// Ends a fit when the monitored metric does not improve any more. A value that
/// is NaN or infinite is no improvement. The first finite value is one.
struct early_stopping {
  /// Name of what is evaluated at the end of each epoch: "loss", or the name of
  /// one of the fit's metrics. The prefix "validation_" selects its value on
  /// the validation data.
  std::string monitor = monitored_metric::validation_loss;
  monitor_mode mode = monitor_mode::automatic;
  /// The fit ends after this many epochs in a row without an improvement.
  std::uint64_t patience = 3;
  /// Only a larger change is an improvement. Finite and at least 0.
  double min_delta = 0;
  /// True: the fit ends with the weights of the best epoch.
  bool restore_best = true;
};

/// Metrics of one committed step.
struct step_record {
  /// Number of the step, counted from 0 over all fits of the model.
  std::uint64_t step = 0;
  std::uint64_t examples = 0;
  double loss = 0; ///< Mean over the step's examples.
  /// In [0, 1]. NaN if the update was skipped (`on_nan`), or without that
  /// metric.
  double accuracy = 0;
  bool skipped = false; ///< True: the update was skipped (`on_nan`).
  /// True: `on_step` was called for this step before. Either the step was made
  /// again (`on_deviation::heal`), and this record replaces the earlier one. Or
  /// this worker has become the chief, and the chief before it was lost and had
  /// perhaps not completed its call.
  bool repeated = false;
  /// All metrics of the fit. Valid during the call of `on_step`; meaningless if
  /// the update was skipped.
  std::span<const metric_value> metrics{};
};

/// Functions that `fit` calls on the thread of its caller, in the order of the
/// steps. If a function throws, the fit ends. Every worker calls its functions
/// once for each step and epoch. If the chief is lost, the functions are called
/// again, with `repeated` set, for what the chief had perhaps not completed.
/// Its successor calls those of steps, and all workers those of an epoch. So
/// what the functions do on the chief only is done at least once.
struct callback {
  /// Called after each epoch, while no step runs. The function may evaluate the
  /// model. It may save the model too; a fit with `resume` can continue from
  /// that file. In a job of several workers these are calls of all workers,
  /// also if `repeated` is set.
  std::function<void(const epoch_record&)> on_epoch_end{};
  /// Called after each committed step, while later steps may run and change
  /// the model. In it, functions of the model and calls of the strategy throw
  /// std::logic_error, except those that tell a number or a name, such as
  /// `steps`. Other models of the strategy may be read. Values that a program
  /// reads from a variable itself may be those of a later step.
  std::function<void(const step_record&)> on_step{};
};

/// Reaction of `fit` if a step's loss or reduced gradient is NaN or infinite.
/// All replicas skip the update of that step, whether `fit` stops or continues.
enum class on_nan : std::uint8_t {
  stop, ///< `fit` throws an error that names the step.
  skip, ///< `fit` logs a warning and continues with the next batch.
};

/// Reaction of `fit` if an audit finds that the copies of the parameters and of
/// the optimizer's state differ, for example after a flipped bit. The gradients
/// of a copy that deviates have been added to those of all replicas. So all
/// steps since the last audit in which the copies were equal are suspect.
enum class on_deviation : std::uint8_t {
  stop, ///< `fit` throws an error that names the copy and the steps.
  /// `fit` logs a warning. All processes return to their state of the last
  /// audit in which the copies were equal, and make the steps since then again.
  /// Each process keeps one more copy of the parameters and the optimizer's
  /// state for this.
  heal,
};

/// Whether the steps of `fit` are captured as graphs of a device
/// (docs/gpu.md). A step whose graph is launched costs the host less time, and
/// has the same bits.
enum class graph_capture : std::uint8_t {
  off,
  /// The forward and the backward pass are captured, if the job has one process
  /// whose replicas share a CUDA device. A layer or a loss of a program must
  /// not have a state that changes from step to step.
  on,
};

/// Saves the model while `fit` trains it, so that a run whose processes are all
/// lost can be resumed. Each save is as one of `model::save` by the program,
/// and the steps wait for it. If the file cannot be written, `fit` logs a
/// warning and continues. There is no save at the end of the fit.
struct periodic_save {
  std::filesystem::path file;
  /// The model is saved when the number of steps of the fit is a multiple of
  /// this one. Zero: not by steps.
  std::uint64_t steps = 0;
  /// The model is saved when the number of complete epochs of the fit is a
  /// multiple of this one. Zero: not by epochs.
  std::uint64_t epochs = 0;
  std::string note{}; ///< As in `model::save`.
};

struct fit_options {
  /// Number of epochs of this fit. In a resumed fit, the epochs before the
  /// interruption count too.
  std::uint64_t epochs = 1;
  /// Epoch of the dataset with which the fit begins. A shuffled dataset has
  /// another order in each epoch. None: 0 in the model's first fit. In a later
  /// fit: the epoch after the last epoch that trained the model.
  std::optional<std::uint64_t> first_epoch{};
  /// Must be batched. None: no validation.
  std::optional<data::dataset> validation{};
  std::vector<callback> callbacks{};
  std::optional<troupe::early_stopping> early_stopping{};
  /// Metrics of training and validation, besides the loss. None: the accuracy
  /// if the labels are class numbers, else no metric.
  std::optional<std::vector<models::metric>> metrics{};
  /// Weight of each class in the training loss, by class number. The list has
  /// one for each class of the data, or for each output of the model. Empty: 1
  /// for each class.
  std::vector<float> class_weights{};
  /// Relative sizes of the replicas' parts of each training batch, by replica
  /// id: for replicas of different speed. With {3, 1}, replica 0 computes three
  /// quarters of each batch. A part is rounded to a whole number of examples
  /// (`shard_of` in data/pipeline/row_range.hpp). Empty: equal parts. The
  /// validation data is always divided into equal parts.
  std::vector<std::uint32_t> replica_shares{};
  /// Selects the variables that the fit changes: those for which it returns
  /// true. The others are frozen. Empty: all variables.
  std::function<bool(const variable&)> trainable{};
  /// Learning rate of each step. The steps of all fits of the model count, from
  /// 0. None: the learning rate of the optimizer.
  std::optional<troupe::schedule> schedule{};
  progress_style progress = progress_style::none;
  troupe::on_nan on_nan = troupe::on_nan::stop;
  /// Interval in steps of the comparison of the copies of the parameters and of
  /// the optimizer's state. They are also compared in the first step and at the
  /// end of each epoch (docs/protocols/audit.md). Zero: no audits. No effect if
  /// all replicas of the job share one copy, as in one process on CPUs or on
  /// one device.
  std::uint64_t audit_steps = 100;
  troupe::on_deviation on_deviation = troupe::on_deviation::stop;
  /// No effect in a job of several processes and on the CPU. No effect either
  /// if the pass cannot be captured, for example because a layer reads elements
  /// on the host.
  graph_capture graph = graph_capture::off;
  /// None: the program saves the model.
  std::optional<periodic_save> save{};
  /// Maximum number of steps of this call. Zero: no limit.
  std::uint64_t max_steps = 0;
  /// Number of batches that a thread reads ahead. Zero: no prefetching. None:
  /// the number that the dataset's own `prefetch` sets, or else 2.
  std::optional<std::size_t> prefetch{};
  /// Flag that any thread or a signal handler may set. When it is true, the fit
  /// ends between two steps, with `fit_end::interrupted`. Null: no flag.
  const std::atomic<bool>* stop = nullptr;
  /// Flag that any thread or a signal handler may set. When it is true, this
  /// worker leaves the job between two steps, with `fit_end::left`. The others
  /// take over its replicas and go on; no step is repeated. The flag has the
  /// effect of `stop` in all workers if no worker would stay, or if the
  /// launcher has sent `end` (net/cluster/launcher_link.hpp). Null: no flag.
  const std::atomic<bool>* leave = nullptr;
  /// True: continues the model's last fit, if that was interrupted, or if it
  /// has completed all its epochs and `epochs` is a larger number now. The
  /// dataset and the other options must equal those of that fit. A fit that
  /// early stopping has ended, or that has restored its best weights, cannot be
  /// continued. False: begins a fit with epoch `first_epoch`.
  bool resume = false;
  /// True: a resumed fit may have another number of replicas and other
  /// `replica_shares` than the fit before. Its weights then have other bits
  /// than those of an uninterrupted fit. All workers must give the same value.
  bool accept_replicas = false;
};

struct evaluate_options {
  /// Metrics besides the loss. None: the accuracy if the labels are class
  /// numbers, else no metric.
  std::optional<std::vector<models::metric>> metrics{};
};

} // namespace troupe
