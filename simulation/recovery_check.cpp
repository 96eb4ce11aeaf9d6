#include "troupe/simulation/recovery_check.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/models/layers.hpp"
#include "troupe/simulation/determinism_check.hpp"
#include "troupe/simulation/elastic_job.hpp"
#include "troupe/tensors/context.hpp"
#include "troupe/tensors/random.hpp"
#include "troupe/training/model.hpp"
#include "troupe/training/strategies/local_strategies.hpp"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <map>

namespace troupe::simulation {

namespace {

using namespace std::chrono_literals;

constexpr std::int64_t rows = 80, batch_rows = 16, inputs = 4, classes = 3;
constexpr std::uint64_t epochs = 2; // of each of the two fits
static_assert(2 * epochs * rows / batch_rows == recovery_steps);

/// Time after which a job that has not ended is stuck.
constexpr std::chrono::seconds time_limit{120};
/// A process that is stopped for less time is not excluded.
constexpr std::chrono::milliseconds short_stop{600};

// -- the training -------------------------------------------------------------

/// What a process has seen of the training.
struct training_record {
  struct commit {
    std::uint64_t step = 0, examples = 0;
    double loss = 0;
    friend bool operator==(const commit&, const commit&) = default;
  };
  std::vector<commit> commits;
  std::string results; ///< Histories and evaluations.
  tensors weights;     ///< Of each local replica.
  fit_end end = fit_end::done;
};

data::dataset make_data(std::uint64_t seed, std::int64_t count) {
  random_stream draw{{.seed = seed}};
  tensor x{{count, inputs}}, labels{{count}, dtype::int32};
  for (auto& e : x.mutable_data<float>())
    e = draw.uniform(-1, 1);
  for (auto& e : labels.mutable_data<std::int32_t>())
    e = static_cast<std::int32_t>(draw.below(classes));
  return {std::move(x), std::move(labels), classes};
}

void add_text(std::string& out, std::initializer_list<double> values) {
  for (const auto x : values) {
    char text[40];
    std::snprintf(text, sizeof text, "%a ", x);
    out += text;
  }
  out += '\n';
}

/// Trains twice and evaluates in between.
/// @param on_step called for each committed step. Empty: not called.
void train(const strategy& job_strategy, training_record& out,
           const std::atomic<bool>* leave,
           const std::function<void(std::uint64_t)>& on_step) {
  static const auto data = make_data(1, rows), validation = make_data(2, 20);
  static const models::model_description network{
    "tiny",
    {inputs},
    models::stack(models::dense{5, activation::relu}, models::dropout{0.2f},
                  models::dense{classes})};
  const auto scope = job_strategy.scope();
  model trained{network, sgd{.learning_rate = 0.1f, .momentum = 0.9f}};
  fit_options options;
  options.epochs = epochs;
  options.prefetch = 0;
  options.leave = leave;
  options.validation = validation.batch(10);
  callback record;
  record.on_step = [&](const step_record& x) {
    if (x.repeated) // by the successor of the chief
      return;
    out.commits.push_back({x.step, x.examples, x.loss});
    if (on_step)
      on_step(x.step);
  };
  options.callbacks.push_back(record);
  const auto fit = [&] {
    const auto history = trained.fit(data.shuffle().batch(batch_rows), options);
    for (const auto& x : history.epochs)
      add_text(out.results,
               {double(x.epoch), double(x.steps), double(x.examples), x.loss,
                x.accuracy, x.validation_loss, x.validation_accuracy});
    out.end = history.end;
    return out.end == fit_end::done;
  };
  options.early_stopping = early_stopping{.patience = 10};
  if (!fit())
    return;
  const auto result = trained.evaluate(validation.batch(8));
  add_text(out.results, {double(result.examples), result.loss});
  options.early_stopping.reset();
  if (!fit())
    return;
  const auto copies = job_strategy.local_replica_ids().size();
  for (std::uint32_t i = 0; i < copies; ++i) {
    current_context().copy_index = i;
    for (const auto& v : trained.variables())
      out.weights.push_back(v.value().clone());
  }
  current_context().copy_index = 0;
}

const training_record& undisturbed() {
  static const auto record = [] {
    training_record out;
    const one_device_strategy alone{"cpu:0", {.replicas = recovery_replicas}};
    train(alone, out, nullptr, {});
    const auto variables = out.weights.size() / recovery_replicas;
    out.weights.resize(variables);
    return out;
  }();
  return record;
}

// -- message faults -----------------------------------------------------------

faults message_faults(const recovery_plan& plan) {
  faults out;
  if (plan.delayed > 0)
    out.delay(plan.delayed, 20ms);
  if (plan.duplicated > 0)
    out.duplicate(plan.duplicated);
  return out;
}

// -- a job --------------------------------------------------------------------

const char* phase_name(run_phase phase) {
  constexpr const char* names[] = {"starting", "idle",     "running", "asking",
                                   "joining",  "changing", "opening", "ended"};
  return names[std::size_t(phase)];
}

class trial {
public:
  trial(std::uint64_t seed, const recovery_plan& plan)
    : plan_{plan},
      sim_{seed},
      injector_{message_faults(plan), seed},
      pending_(plan.faults.size()),
      job_{sim_, options_of(plan),
           [this](process_life& life, const strategy& x) {
             auto& record = records_[life.number];
             train(x, record, &life.leave, [this](std::uint64_t step) {
               committed_ = std::max(committed_, step + 1);
             });
           },
           plan.delayed > 0 || plan.duplicated > 0 ? &injector_ : nullptr} {
    out_.plan = to_string(plan);
  }

  recovery_result run() {
    const bool in_time = job_.run([this] { make_faults(); }, time_limit);
    if (!in_time)
      fail("the job has not ended in time: " + states());
    check_views();
    check_chiefs();
    for (const auto& life : job_.lives())
      check_life(*life);
    if (in_time) {
      check_newest_view();
      check_completion();
    }
    out_.delivered = sim_.delivered;
    out_.seconds = double(sim_.elapsed().count()) / 1e9;
    return out_;
  }

private:
  struct pending_fault {
    /// Number of delivered messages at the moment of the fault. None: the
    /// moment has not come.
    std::optional<std::size_t> since;
    bool has_occurred = false;
  };

  static elastic_job_options options_of(const recovery_plan& plan) {
    elastic_job_options out;
    out.processes = plan.processes;
    out.replicas = recovery_replicas;
    out.network.latency = out.network.jitter = plan.latency;
    out.on_one_host = plan.on_one_host;
    out.has_launcher = plan.has_launcher;
    return out;
  }

  void fail(const std::string& what) {
    if (out_.failure.empty())
      out_.failure = what;
  }

  // -- faults -----------------------------------------------------------------

  void make_faults() {
    if (occurred_ == plan_.faults.size())
      return;
    for (std::size_t i = 0; i < pending_.size(); ++i) {
      auto& one = pending_[i];
      const auto& fault = plan_.faults[i];
      if (one.has_occurred)
        continue;
      if (!one.since && has_come(i))
        one.since = sim_.delivered;
      if (!one.since || sim_.delivered < *one.since + fault.messages)
        continue;
      one.has_occurred = true;
      ++occurred_;
      make(fault);
    }
  }

  bool has_come(std::size_t i) const {
    using enum process_fault::moment;
    const auto& fault = plan_.faults[i];
    switch (fault.when) {
      case step:
        return has_begun() && committed_ >= fault.count;
      case view_message:
        return job_.view_messages() >= fault.count;
      case with_last:
        return i > 0 && pending_[i - 1].has_occurred;
    }
    return false;
  }

  bool has_begun() const {
    return std::ranges::all_of(job_.lives(), [](const auto& x) {
      return x->phase != run_phase::starting;
    });
  }

  void make(const process_fault& fault) {
    using enum process_fault::kind;
    auto& life = job_.life_of(fault.task);
    const bool lives = life.state == process_life::fate::alive
                       || life.state == process_life::fate::partitioned;
    if (!lives || life.phase == run_phase::ended)
      return;
    ++out_.fired;
    note_state(life, fault);
    const auto task = fault.task;
    switch (fault.type) {
      case kill:
      case power_off:
        lost_.insert(life.number);
        silent_losses_ += fault.type == power_off;
        job_.kill(task, fault.type == kill);
        if (fault.until)
          job_.after(*fault.until, [this, task] { job_.start_again(task); });
        break;
      case stop:
        if (*fault.until >= short_stop) {
          lost_.insert(life.number);
          ++silent_losses_;
        }
        job_.stop(task);
        job_.after(*fault.until, [this, &life] {
          if (&job_.life_of(life.task) == &life)
            job_.go_on(life.task);
        });
        break;
      case partition:
        lost_.insert(life.number);
        ++silent_losses_;
        job_.partition(task);
        break;
      case cut:
        cuts_.insert(life.number);
        cuts_.insert(job_.life_of(fault.peer).number);
        ++cut_count_;
        job_.cut(task, fault.peer);
        break;
      case leave:
        leavers_.insert(life.number);
        life.leave = true;
        break;
    }
  }

  void note_state(const process_life& life, const process_fault& fault) {
    const auto& peers = *life.peers;
    auto state = std::string{phase_name(life.phase)};
    state += life.joins ? " joiner" : "";
    const auto& view = peers.view;
    state += !view.members.empty() && view.members[0].task == life.task
               ? " chief"
               : "";
    state += peers.stop.requested ? " stop" : "";
    state += peers.stop.stopped ? " stopped" : "";
    state += life.last_sent ? " " + std::to_string(int(*life.last_sent)) : "";
    out_.reached.insert(state + ", " + simulation::name_of(fault.type));
  }

  // -- what must hold ---------------------------------------------------------

  void check_views() {
    std::map<std::uint64_t, membership::view> agreed;
    for (const auto& life : job_.lives()) {
      std::uint64_t last = 0;
      for (const auto& x : life->views) {
        if (x.view_id <= last)
          fail("the views of " + name(*life) + " do not count");
        last = x.view_id;
        out_.view_changes =
          std::max<std::size_t>(out_.view_changes, x.view_id - 1);
        if (agreed.try_emplace(x.view_id, x).first->second != x)
          fail("view " + std::to_string(x.view_id) + " has two contents");
        check_placement(x);
      }
    }
    views_ = std::move(agreed);
  }

  void check_placement(const membership::view& of) {
    std::vector<int> hosts(recovery_replicas);
    for (const auto& member : of.members)
      for (const auto r : member.replicas)
        ++hosts.at(r);
    for (std::uint32_t r = 0; r < recovery_replicas; ++r)
      if (hosts[r] != 1)
        fail("in view " + std::to_string(of.view_id) + ", replica "
             + std::to_string(r) + " has " + std::to_string(hosts[r])
             + " hosts");
  }

  void check_chiefs() {
    std::map<std::uint64_t, std::uint64_t> chief_of;
    for (const auto& [view_id, life] : job_.chiefs()) {
      if (!chief_of.try_emplace(view_id, life).second)
        fail("view " + std::to_string(view_id) + " has two chiefs");
      const auto it = views_.find(view_id);
      if (it != views_.end()
          && it->second.members.at(0).incarnation
               != job_.lives()[life - 1]->incarnation)
        fail("another process than the first one leads view "
             + std::to_string(view_id));
    }
  }

  void check_life(const process_life& life) {
    const auto& expected = undisturbed();
    const auto& record = records_[life.number];
    std::optional<std::uint64_t> last;
    for (const auto& x : record.commits) {
      if (last && x.step != *last + 1)
        fail(name(life) + " was told of step " + std::to_string(x.step)
             + " after step " + std::to_string(*last));
      if (!last && !life.joins && x.step != 0)
        fail(name(life) + " was first told of step " + std::to_string(x.step));
      last = x.step;
      if (x.step >= expected.commits.size() || !(x == expected.commits[x.step]))
        fail("step " + std::to_string(x.step) + " of " + name(life)
             + " has another content than in the undisturbed job");
    }
    if (!life.is_completed)
      return;
    if (record.end == fit_end::left) {
      ++out_.left;
      if (!leavers_.contains(life.number))
        fail(name(life) + " has left, but was not asked to");
    }
    if (record.end != fit_end::done)
      return;
    ++out_.completed;
    out_.joined += life.joins;
    if (record.results != expected.results)
      fail(name(life) + " has other results than the undisturbed job:\n"
           + record.results + "instead of\n" + expected.results);
    if (!life.joins && record.commits.size() != recovery_steps)
      fail(name(life) + " has completed the job after "
           + std::to_string(record.commits.size()) + " steps");
    const auto variables = expected.weights.size();
    for (std::size_t i = 0; i < record.weights.size(); i += variables) {
      const tensors copy(record.weights.begin() + std::ptrdiff_t(i),
                         record.weights.begin()
                           + std::ptrdiff_t(i + variables));
      if (const auto text = difference(copy, expected.weights); !text.empty())
        fail("the weights of " + name(life) + " differ: " + text);
    }
  }

  /// The job must be completed if enough members of its newest view remain that
  /// had no fault.
  void check_newest_view() {
    if (out_.completed > 0 || views_.empty())
      return;
    const auto& newest = views_.rbegin()->second;
    const auto& members = newest.members;
    std::size_t unhurt = 0, dead = 0;
    // The process that has agreed on the newest view may have died before it
    // has told the others.
    bool has_state = false, is_known = false;
    for (const auto& x : members) {
      const auto& life =
        *std::ranges::find(job_.lives(), x.incarnation,
                           [](const auto& one) { return one->incarnation; });
      if (life->state == process_life::fate::killed) {
        ++dead;
      } else if (!lost_.contains(life->number) && !cuts_.contains(life->number)
                 && !leavers_.contains(life->number)) {
        ++unhurt;
        has_state |= !life->joins;
        is_known |= life->views.back().view_id == newest.view_id;
      }
    }
    const bool others_are_dead =
      plan_.on_one_host && unhurt + dead == members.size();
    if (has_state && is_known
        && 2 * unhurt + (others_are_dead ? 1 : 0) > members.size())
      fail("no process has completed the job, but enough remain: " + states());
  }

  /// The job must be completed if more than half of the processes remain, or
  /// half of them and all others are known to be dead, or if a launcher ends
  /// all that do not answer.
  void check_completion() {
    std::set<std::uint32_t> tasks;
    for (const auto* lives : {&lost_, &leavers_})
      for (const auto number : *lives)
        tasks.insert(job_.lives()[number - 1]->task);
    const std::size_t n = plan_.processes;
    const auto hit = tasks.size() + cut_count_;
    const bool all_dead = plan_.on_one_host && silent_losses_ == 0
                          && cut_count_ == 0 && leavers_.empty();
    if (hit >= n || 2 * (n - hit) + (all_dead ? 1 : 0) <= n)
      return;
    if (out_.completed == 0)
      return fail("no process has completed the job: " + states());
    if (plan_.has_launcher && silent_losses_ + cut_count_ > 0)
      return; // the launcher may have ended others
    if (silent_losses_ + cut_count_ > 0) {
      // If only some of the others have lost the connection to a process, the
      // process at the other end may be the one that is excluded.
      if (out_.completed < n - hit)
        fail("only " + std::to_string(out_.completed)
             + " processes have completed the job: " + states());
      return;
    }
    for (const auto& life : job_.lives()) {
      const bool is_hit = lost_.contains(life->number)
                          || cuts_.contains(life->number)
                          || leavers_.contains(life->number);
      const bool is_done =
        life->is_completed && records_[life->number].end == fit_end::done;
      if (!life->joins && !is_hit && !is_done)
        return fail(name(*life) + " has not completed the job: " + states());
    }
  }

  std::string name(const process_life& life) const {
    return "process " + std::to_string(life.task)
           + (life.joins ? " (joined)" : "");
  }

  std::string states() {
    std::string out;
    for (const auto& life : job_.lives()) {
      constexpr const char* fates[] = {"alive", "killed", "partitioned",
                                       "ended"};
      out += "\n  " + name(*life) + ": " + fates[int(life->state)] + ", "
             + phase_name(life->phase) + ", view "
             + std::to_string(life->peers->view.view_id) + ", "
             + std::to_string(records_[life->number].commits.size())
             + " commits";
      if (life->is_completed)
        out += ", end " + std::to_string(int(records_[life->number].end));
      if (life->error)
        try {
          std::rethrow_exception(life->error);
        } catch (const std::exception& e) {
          out += std::string{", "} + e.what();
        }
    }
    return out;
  }

  const recovery_plan plan_;
  simulator sim_;
  random_fault_injector injector_;
  std::vector<pending_fault> pending_; ///< In the order of the plan.
  std::size_t occurred_ = 0;
  std::uint64_t committed_ = 0; ///< Steps that a process has been told of.
  std::map<std::uint64_t, training_record> records_; ///< By number of the life.
  std::map<std::uint64_t, membership::view> views_;  ///< By id.
  /// Numbers of the lives that the job may have lost, of those at the ends of
  /// cut connections, and of those that were asked to leave.
  std::set<std::uint64_t> lost_, cuts_, leavers_;
  std::size_t cut_count_ = 0;
  /// Number of losses without evidence of a death.
  std::size_t silent_losses_ = 0;
  recovery_result out_;
  elastic_job job_;
};

} // namespace

recovery_result check_recovery(std::uint64_t seed) {
  return check_recovery(seed, random_recovery_plan(seed, recovery_steps));
}

recovery_result check_recovery(std::uint64_t seed, const recovery_plan& plan) {
  return trial{seed, plan}.run();
}

} // namespace troupe::simulation
