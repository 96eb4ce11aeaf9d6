#pragma once

#include "troupe/data/pipeline/dataset.hpp"
#include "troupe/models/description.hpp"
#include "troupe/models/metrics.hpp"
#include "troupe/strategies/parameter_server/consistency.hpp"
#include "troupe/tensors/optim/schedules.hpp"
#include "troupe/tensors/optim/update_rules.hpp"
#include "troupe/training/loop/options/fit_options.hpp"
#include "troupe/training/loop/options/history.hpp"
#include "troupe/training/model.hpp"
#include "troupe/training/parameter_server/cluster_coordinator.hpp"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// A contribution to a synchronous step that did not count, because enough
/// other replicas had contributed.
struct dropped_contribution {
  std::uint64_t step = 0;
  std::uint32_t replica = 0;
  std::uint64_t examples = 0; ///< That do not count in this epoch.
  /// True: the tables have a consistency of their own, and the replica has
  /// updated them all the same. False if it had no example, or if its loss or
  /// gradient was not finite.
  bool has_updated_tables = false;
};

/// Options of `server_model::fit`. The members mean what those of `fit_options`
/// mean.
struct server_fit_options {
  std::uint64_t epochs = 1;
  /// None: 0 in the first fit, else the epoch after the last one that has
  /// trained the model.
  std::optional<std::uint64_t> first_epoch{};
  std::optional<data::dataset> validation{};
  /// Called after each epoch, while no step runs. The function may call
  /// `copy_to`; a fit with `resume` can continue from that state.
  std::function<void(const epoch_record&)> on_epoch_end{};
  std::optional<std::vector<models::metric>> metrics{};
  std::vector<float> class_weights{};
  std::optional<troupe::schedule> schedule{};
  troupe::on_nan on_nan = troupe::on_nan::stop;
  /// Maximum number of steps of this call. Zero: no limit.
  std::uint64_t max_steps = 0;
  /// The fit pauses when the number of steps of the model is a multiple of this
  /// number: no further step begins until all steps before are done, and
  /// `on_pause` has returned. There is no pause where the fit ends, by
  /// `epochs`, `max_steps` or `stop`. Zero: it does not pause.
  std::uint64_t pause_steps = 0;
  /// Called at each pause, after `on_epoch_end` if an epoch ends there. The
  /// function may call `copy_to`; a fit with `resume` can continue from that
  /// state.
  std::function<void()> on_pause{};
  /// When it is true, the fit ends with `fit_end::interrupted`. With
  /// synchronous consistency no further step is decided. Otherwise a replica
  /// makes the steps that it has got, those of about a quarter of a second, and
  /// all replicas make as many as the one that has got most.
  const std::atomic<bool>* stop = nullptr;
  /// True: continues the interrupted fit of this model, or of the model of
  /// which it has a copy (`copy_from`), with the batch after its last one. A
  /// complete fit is continued if `epochs` is larger than its own.
  bool resume = false;
  progress_style progress = progress_style::none;
  /// How the gradients change the parameters. With `synchronous` each batch is
  /// a step, which the replicas divide, as `model::fit` does; with the other
  /// kinds each batch is a step of one replica.
  parameter_server::consistency consistency{};
  /// How the gradients of the tables change them: `asynchronous` or `bounded`,
  /// if `consistency` is synchronous. Then each replica of a step updates the
  /// tables on its own. None: as `consistency` says.
  std::optional<parameter_server::consistency> table_consistency{};
  /// Number of replicas. Zero: as many as the coordinator has workers when the
  /// fit begins.
  std::uint32_t replicas = 0;
  /// Called for each contribution that did not count, on the thread of `fit`.
  std::function<void(const dropped_contribution&)> on_dropped{};
};

/// A network whose parameters are on parameter servers. Workers train R
/// replicas of it. In a step a replica reads the parameters, computes the
/// gradient of a batch or of its part of it, and pushes it to the servers.
///
///   asynchronous  batch c R + r is step c of replica r. It does not wait for
///                 others, so its gradient belongs to parameters that others
///                 have changed meanwhile
///   bounded       the same, but its parameters contain all steps of all
///                 replicas below c - `max_staleness`
///   synchronous   the servers add the gradients of all replicas, and make one
///                 update. With `backup_workers` b they do so when R - b
///                 replicas have contributed; the others do not count
///
/// The servers keep these rules: they answer a read when the parameters have
/// all steps that the replica must see. The process of the coordinator decides
/// which contributions count in a synchronous step.
///
/// A table of the network is a table of the servers, which keep only its rows
/// that were updated. A step reads the rows of its batch, each once, and sends
/// the gradient of these rows.
///
/// With `table_consistency` the other parameters are synchronous. A replica
/// contributes to their update, and updates the tables at once. It divides the
/// gradient of its part of the batch by the number of examples of the whole
/// batch. So with `sgd` without momentum
/// the updates of all replicas have together the size of a synchronous one.
/// With other rules each moves its rows by a step of its own. The tables that a
/// replica reads for step c contain
///
///   asynchronous  whatever has arrived
///   bounded       all updates of all replicas in the steps below
///                 c - `max_staleness`
///
/// Both also contain what other replicas have changed in the same step before
/// the read. Without backup workers a step begins when all replicas have made
/// those before, so the kinds do not differ. With backup workers the
/// contribution of a late replica is dropped, but its update of the tables
/// counts, and with `bounded` no step that must see it reads before.
///
/// A replica whose loss or gradient is not finite changes no table and makes no
/// contribution. With `on_nan::skip` the other parameters are not updated in
/// this step, unless the replica is late. With `on_nan::stop` the fit ends with
/// an error, also if the replica is late. The updates of tables by the other
/// replicas stay in both cases. After an error in the first step of an epoch
/// the next fit begins with the same batch, and updates its rows again.
class server_model {
public:
  /// @param name of the variable that holds all parameters but tables; must be
  ///        new.
  /// @errors as the constructor of `model`, and `make_variable`.
  server_model(const parameter_server_strategy& strategy,
               const std::string& name,
               const models::model_description& architecture,
               const update_rule& rule, const model_options& options = {});
  /// Removes the variables and their slots from the servers, and frees their
  /// names. Waits at most 5 s for each server; after an error the names stay
  /// taken.
  ~server_model();
  server_model(const server_model&) = delete;
  server_model& operator=(const server_model&) = delete;

  /// Trains on a batched dataset. In each epoch every batch counts once, also
  /// if workers are lost (but for contributions that backup workers drop). With
  /// `synchronous`, no backup workers and no `table_consistency`, the
  /// parameters have the bits of `model::fit` with as many replicas R, as long
  /// as no element of a replica's gradient is above FLT_MAX / R, about 3.4e38 /
  /// R. Larger ones count as not finite here (`on_nan`), while `model::fit`
  /// tests the sum of the replicas. The number of workers and servers has no
  /// effect. One replica has these bits with
  /// `table_consistency` too, if no step is skipped. So has one replica with
  /// the other kinds, if no step is skipped (`on_nan`). In these cases a fit
  /// that was interrupted and resumed ends with the bits of one that was not.
  /// In all others each batch counts once all the same.
  /// @param coordinator of the strategy of this model. All its closures must be
  ///        done, and no other thread may train or evaluate with it. If its
  ///        workers are on nodes, its closures are those of
  ///        `register_server_training`, with the same datasets.
  /// @errors throws std::invalid_argument, before the first step, if the data
  ///         does not fit the model or an option is invalid, as `model::fit`
  ///         does; std::logic_error if the coordinator belongs to another
  ///         strategy, has closures that are not done, or is used by another
  ///         thread; std::runtime_error if a loss or gradient is not finite
  ///         (`on_nan`), and at the end if a weight is not; what
  ///         `cluster_coordinator::join` throws.
  /// @cost at the end reads all parameters, except tables of more than 2^24
  ///       elements, whose weights are not checked.
  history fit(cluster_coordinator& coordinator, const data::dataset& batches,
              const server_fit_options& options = {});

  /// Returns the loss and the metrics over a batched dataset. Each batch is a
  /// closure, and counts once. If the workers are on nodes, the dataset is
  /// their validation data.
  /// @errors as `fit`
  evaluation evaluate(cluster_coordinator& coordinator,
                      const data::dataset& batches,
                      const evaluate_options& options = {});

  /// Returns the SHA-256 of all parameters, as `model::weights_sha256`.
  std::string weights_sha256() const;

  /// Gives the parameters to a model of the same architecture, which can save
  /// them and evaluate. If it has the same update rule, perhaps with another
  /// learning rate, it also gets the slots and the position, so that its next
  /// fit goes on as this model would, with the learning rate of its own. That
  /// of a fit with `synchronous` that was interrupted can be resumed with as
  /// many replicas, that of another kind with one. In a fit with
  /// `table_consistency` the tables count the updates of all replicas. In the
  /// target, and after `copy_from` it, they count the steps of the model. So
  /// the bias correction of `adam` and `adamw` changes if there are several
  /// replicas, also when a run goes back to such a copy.
  /// @pre no fit runs.
  /// @returns false if the rules differ by more than the learning rate: the
  ///          target has got the parameters only, and a warning says so.
  /// @errors throws std::invalid_argument if its parameters have other names or
  ///         shapes.
  bool copy_to(model& target) const;

  /// Takes the parameters of a model of the same architecture, and as `copy_to`
  /// its slots and position, for example of a model that was loaded from a
  /// file. The number of servers that had them before has no effect. The tables
  /// count the steps of the model as their own, also if the next fit has
  /// `table_consistency`.
  /// @pre no fit runs.
  /// @returns as `copy_to`.
  /// @errors as `copy_to`; `job_error` if a server does not answer.
  bool copy_from(const model& source);

  /// Steps so far. @pre no fit runs.
  std::uint64_t steps() const;
  /// The variable that holds all parameters but tables, each at a multiple of
  /// 16 elements. The tables are "<name of this variable>/<name of the table>".
  const server_variable& variable() const;

private:
  struct impl;
  const std::unique_ptr<impl> impl_;
};

} // namespace troupe
