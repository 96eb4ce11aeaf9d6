#include "troupe/simulation/recovery_check.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/net/cluster/launcher_link.hpp"
#include "troupe/simulation/determinism_check.hpp"
#include "troupe/simulation/elastic_job.hpp"
#include "troupe/training/checkpoint/saved_model.hpp"
#include "troupe/training/strategies/local_strategies.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <system_error>

namespace troupe::simulation {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

/// Maximum time from a fault to the next view. The fault is noticed within the
/// heartbeat timeout (1 s), and connections are made again within another one.
/// The rest is for the view change and the step that is made again.
constexpr std::chrono::seconds recovery_time{3};
/// Time after the start timeout in which a participant waits for the leader.
constexpr std::chrono::seconds first_lanes_time{5};
/// Maximum number of messages of a job that wait for one another.
constexpr int chained_messages = 1000;
/// Processes of a host know after this time that one of them has been killed.
constexpr std::chrono::milliseconds death_is_known_after{100};
/// A process tells the others of a view that they have not heard of in this
/// time.
constexpr std::chrono::milliseconds view_is_known_after{100};
/// A process that is stopped for less time is not excluded.
constexpr std::chrono::milliseconds short_stop{600};

/// What a process is told of the training.
struct training_record {
  std::vector<told_step> steps; ///< Steps that were not repeated.
  program_result result;
};

/// Trains on one device.
training_record train_alone(job_program program) {
  training_record out;
  program_hooks hooks;
  hooks.on_step = [&](const told_step& x, bool) { out.steps.push_back(x); };
  const one_device_strategy alone{"cpu:0", {.replicas = recovery_replicas}};
  run_program(program, alone, hooks, out.result);
  auto& weights = out.result.weights;
  weights.resize(weights.size() / recovery_replicas);
  return out;
}

const training_record& undisturbed(job_program program) {
  static const std::array all{train_alone(job_program::fits),
                              train_alone(job_program::plain_loop),
                              train_alone(job_program::joinable_loop)};
  return all[std::size_t(program)];
}

// -- faults of messages and packets -------------------------------------------

faults message_faults(const recovery_plan& plan) {
  faults out;
  if (plan.delayed > 0)
    out.delay(plan.delayed, 20ms);
  if (plan.duplicated > 0)
    out.duplicate(plan.duplicated);
  return out;
}

const char* name_of(message_kind kind) {
  return kind == message_kind::contribution ? "contribution"
         : kind == message_kind::result     ? "result"
                                            : "gather";
}

/// The faults of messages of a plan, and those of single packets.
class planned_fault_injector final : public random_fault_injector {
public:
  planned_fault_injector(const recovery_plan& plan, std::uint64_t seed)
    : random_fault_injector{message_faults(plan), seed}, plan_{plan} {}

  injected_fault on_packet(const role_id& sender, const role_id& receiver,
                           message_kind kind, std::uint64_t generation,
                           std::uint64_t step) override {
    auto out = on_send(sender, receiver, kind, generation, step);
    const auto number = packets_++;
    const auto is_one_of = [&](const std::vector<std::uint64_t>& numbers) {
      return std::ranges::find(numbers, number) != numbers.end();
    };
    out.dropped = is_one_of(plan_.lost_packets);
    out.corrupted = is_one_of(plan_.corrupt_packets);
    if (out.dropped || out.corrupted) {
      ++faulty_packets;
      kinds.insert(std::string{out.dropped ? "lost " : "corrupt "}
                   + name_of(kind));
    }
    return out;
  }

  std::size_t faulty_packets = 0;
  std::set<std::string> kinds; ///< Kinds of these packets.

private:
  const recovery_plan& plan_;
  std::uint64_t packets_ = 0; ///< Sent so far.
};

// -- files --------------------------------------------------------------------

/// Empty: there is no such file.
std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream in{file, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

/// A folder for the files of one job.
class job_folder {
public:
  job_folder() {
    std::error_code none;
    const std::filesystem::path memory{"/dev/shm"};
    auto name = ((std::filesystem::is_directory(memory, none)
                    ? memory
                    : std::filesystem::temp_directory_path())
                 / "troupe-simulation-XXXXXX")
                  .string();
    if (!::mkdtemp(name.data()))
      throw std::system_error(errno, std::generic_category(), name);
    path_ = name;
  }
  ~job_folder() {
    std::error_code none;
    std::filesystem::remove_all(path_, none);
  }
  job_folder(const job_folder&) = delete;
  job_folder& operator=(const job_folder&) = delete;

  const std::filesystem::path& path() const { return path_; }

private:
  std::filesystem::path path_;
};

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
      injector_{plan_, seed},
      pending_(plan.faults.size()),
      rng_{seed},
      job_{sim_, options_of(plan),
           [this](process_life& life, const strategy& on) { run(life, on); },
           has_faulty_messages(plan) ? &injector_ : nullptr} {
    out_.plan = to_string(plan);
  }

  recovery_result run() {
    const bool in_time = job_.run([this] { make_faults(); }, time_limit_);
    if (!in_time)
      fail("the job has not ended in time: " + states());
    for (const auto& error : job_.membership_errors())
      fail("a membership actor has ended: " + error);
    check_views();
    check_chiefs();
    for (const auto& life : job_.lives())
      check_life(*life);
    if (in_time && !is_start_hit_) {
      check_newest_view();
      check_completion();
    }
    check_last_file();
    out_.faulty_packets = injector_.faulty_packets;
    out_.packet_kinds = injector_.kinds;
    out_.launcher_kills = job_.launcher_kills();
    out_.survivors_named = job_.survivors_named();
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
    out.reconnects = plan.reconnects;
    return out;
  }

  static bool has_faulty_messages(const recovery_plan& plan) {
    return plan.delayed > 0 || plan.duplicated > 0 || !plan.lost_packets.empty()
           || !plan.corrupt_packets.empty();
  }

  /// Time after which a job that has not ended is stuck. One of the timeouts of
  /// its processes may pass at the end, for example of a process that cannot
  /// join. The longest timeout is that of the start, with the lanes for which a
  /// participant waits then.
  static std::chrono::seconds time_limit_of(const recovery_plan& plan) {
    milliseconds out =
      options_of(plan).start_timeout + first_lanes_time
      + user_code_pieces(plan.program) * plan.user_code_time
      + plan.faults.size()
          * (recovery_time
             + (plan.has_launcher ? net::launcher_link::question_timeout
                                  : 0ms));
    for (const auto& one : plan.faults)
      out += one.until.value_or(0ms);
    // The lanes of two views cannot be opened before a process is excluded.
    out += 2 * options_of(plan).start_timeout
           * std::ranges::count(plan.faults, process_fault::kind::block,
                                &process_fault::type);
    out +=
      (plan.lost_packets.size() + plan.corrupt_packets.size()) * recovery_time;
    const auto message_time = 2 * plan.latency + (plan.delayed > 0 ? 1ms : 0ms);
    return std::chrono::ceil<std::chrono::seconds>(
      out + chained_messages * message_time);
  }

  void fail(const std::string& what) {
    if (out_.failure.empty())
      out_.failure = what;
  }

  // -- the programs -----------------------------------------------------------

  void run(process_life& life, const strategy& on) {
    program_hooks hooks;
    hooks.in_user_code = [&] { spend_time(life); };
    hooks.on_step = [&](const told_step& x, bool repeated) {
      if (life.state != process_life::fate::killed)
        on_step(life, on, x, repeated);
    };
    hooks.save = [&](const model& trained) { save(life, trained); };
    hooks.on_failure = [&](const model& trained) {
      on_failure(life, on, trained);
    };
    hooks.leave = &life.leave;
    hooks.prefetch = plan_.prefetch;
    run_program(plan_.program, on, hooks, records_[life.number].result);
  }

  /// The program of the process is in code of its own.
  void spend_time(process_life& life) {
    if (life.state == process_life::fate::killed)
      return;
    const auto piece = ++pieces_[life.number];
    auto time = 0ms;
    if (plan_.user_code_time > 0ms && rng_() % 3 == 0)
      time = std::chrono::milliseconds{
        1 + rng_() % std::uint64_t(plan_.user_code_time.count())};
    for (std::size_t i = 0; i < pending_.size(); ++i) {
      const auto& fault = plan_.faults[i];
      if (fault.when != process_fault::moment::user_code || pending_[i].since
          || fault.task != life.task || fault.count != piece)
        continue;
      pending_[i].since = sim_.delivered;
      time = std::max(time, 2ms);
    }
    job_.pause(life, time);
  }

  void on_step(const process_life& life, const strategy& on, const told_step& x,
               bool repeated) {
    committed_ = std::max(committed_, x.step + 1);
    auto& steps = records_[life.number].steps;
    const auto what = name(life) + " was told of step " + std::to_string(x.step)
                      + (repeated ? " again" : "");
    if (!repeated) {
      if (steps.empty() ? !life.joins && x.step != 0
                        : x.step != steps.back().step + 1)
        fail(what
             + (steps.empty()
                  ? " first"
                  : " after step " + std::to_string(steps.back().step)));
      steps.push_back(x);
    }
    const auto& expected = undisturbed(plan_.program).steps;
    if (x.step >= expected.size() || !(x == expected[x.step]))
      fail(what + ", with another content than in the undisturbed job");
    if (plan_.program == job_program::fits)
      check_chief_is_told(life, on.is_chief(), x.step, repeated, what);
  }

  void check_chief_is_told(const process_life& life, bool is_chief,
                           std::uint64_t step, bool repeated,
                           const std::string& what) {
    if (repeated) {
      ++out_.repeated;
      if (!is_chief)
        fail(what + ", but it is not the chief");
      for (const auto& other : job_.lives())
        if (other->state == process_life::fate::alive
            && life.peers->view.contains(other->task, other->incarnation)
            && other->processed_by_chief > step)
          fail(what + ", but " + name(*other)
               + " knows that the chief has processed it");
    }
    if (!is_chief)
      return;
    if (step > told_to_chiefs_ && !has_joined_chief())
      fail(what + " as the chief, but no chief was told of step "
           + std::to_string(told_to_chiefs_));
    told_to_chiefs_ = std::max(told_to_chiefs_, step + 1);
  }

  /// True if a process that has joined became the chief. It does not know the
  /// last steps that were made before it has joined, and is not told of them.
  bool has_joined_chief() const {
    return std::ranges::any_of(job_.chiefs(), [this](const auto& x) {
      return job_.lives()[x.life - 1]->joins;
    });
  }

  void save(const process_life& life, const model& trained) {
    if (life.state == process_life::fate::killed)
      return;
    ++saves_;
    try {
      trained.save(file());
    } catch (...) {
      check_file(life);
      throw;
    }
    check_file(life);
  }

  /// The program saves its model, and tries to go on.
  void on_failure(const process_life& life, const strategy& on,
                  const model& trained) {
    if (life.state == process_life::fate::killed)
      return;
    const bool is_excluded = life.peers->excluded;
    const auto saved = saves_;
    const auto before = bytes_of(file());
    try {
      save(life, trained);
      if (is_excluded)
        fail(name(life) + " is excluded, and could save its model");
    } catch (const std::exception&) {
    }
    if (!is_excluded)
      return;
    if (saves_ == saved + 1 && bytes_of(file()) != before)
      fail(name(life) + " is excluded, and has changed the file of the job");
    try {
      (void)trained.weights_sha256();
      if (!life.peers->has_left)
        fail(name(life) + " is excluded, and could read its weights");
    } catch (const std::exception&) {
    }
    if (!trained.save_after_failure(folder_.path() / "own").empty())
      fail(name(life) + " is excluded, and could save its own copy");
    try {
      on.run([](replica_context&) {});
      fail(name(life) + " is excluded, and could run a step");
    } catch (const std::exception&) {
    }
  }

  // -- files ------------------------------------------------------------------

  std::filesystem::path file() const { return folder_.path() / "model"; }

  /// A process has saved the model, or has tried to.
  void check_file(const process_life& by) {
    if (!std::filesystem::exists(file()))
      return;
    const auto found = header_of(file());
    if (!found.saved_at)
      return fail(name(by) + " has saved a file without a position");
    const auto& position = *found.saved_at;
    if (newest_file_ && newest_file_->job != position.job)
      fail(name(by) + " has saved a file with another id of the job");
    if (newest_file_ && is_later(*newest_file_, position))
      fail(name(by) + " has replaced the file of view "
           + std::to_string(newest_file_->view) + ", call "
           + std::to_string(newest_file_->call) + " by that of view "
           + std::to_string(position.view) + ", call "
           + std::to_string(position.call));
    newest_file_ = position;
  }

  void check_last_file() {
    if (out_.completed == 0)
      return;
    if (!std::filesystem::exists(file()))
      return fail("the job is completed, but has saved no file");
    const auto found = header_of(file());
    if (found.steps != recovery_steps)
      fail("the file of the job has the model after "
           + std::to_string(found.steps) + " steps");
  }

  // -- faults -----------------------------------------------------------------

  void make_faults() {
    if (!has_begun_)
      has_begun_ = std::ranges::all_of(job_.lives(), [](const auto& x) {
        return x->phase != run_phase::starting;
      });
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
        return committed_ > 0 ? committed_ >= fault.count
                              : has_begun_ && fault.count == 0;
      case view_message:
        return job_.view_messages() >= fault.count;
      case user_code:
        return false; // `spend_time` notes it
      case delivery:
        return sim_.delivered >= fault.count;
      case with_last:
        return i > 0 && pending_[i - 1].has_occurred;
    }
    return false;
  }

  void make(const process_fault& fault) {
    using enum process_fault::kind;
    auto& life = job_.life_of(fault.task);
    const bool lives = life.state == process_life::fate::alive
                       || life.state == process_life::fate::partitioned;
    if (!lives)
      return;
    ++out_.fired;
    is_start_hit_ |= !has_begun_;
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
      case split:
        split_into({task, fault.peer});
        break;
      case cut:
        cuts_.insert(life.number);
        cuts_.insert(job_.life_of(fault.peer).number);
        ++cut_count_;
        job_.cut(task, fault.peer);
        break;
      case block:
        cuts_.insert(life.number);
        ++cut_count_;
        job_.block(task);
        break;
      case leave:
        leavers_.insert(life.number);
        life.leave = true;
        break;
    }
  }

  /// Of the two groups, the job may lose the one that has fewer processes, of
  /// two equal ones either.
  void split_into(const std::set<std::uint32_t>& tasks) {
    const auto count = job_.count();
    const bool are_fewer = 2 * tasks.size() <= count;
    for (std::uint32_t task = 0; task < count; ++task)
      if (tasks.contains(task) == are_fewer) {
        lost_.insert(job_.life_of(task).number);
        ++silent_losses_;
      }
    job_.split(tasks);
  }

  void note_state(const process_life& life, const process_fault& fault) {
    const auto& peers = *life.peers;
    auto state = std::string{phase_name(life.phase)};
    state += life.joins ? " joiner" : "";
    state += life.in_user_code ? " in its own code" : "";
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

  /// Returns which replicas each process of a view has: "0: 1 2, 3: 0".
  static std::string hosts(const membership::view& of) {
    std::string out;
    for (const auto& one : of.members) {
      out += (out.empty() ? "" : ", ") + std::to_string(one.task) + ":";
      for (const auto id : one.replicas)
        out += " " + std::to_string(id);
    }
    return out;
  }

  /// A view as the processes have taken it that have the same one.
  struct taken_view {
    membership::view content;
    caf::timespan first{};      ///< Time at which the first has taken it.
    bool have_all_ended = true; ///< These processes.
    caf::timespan last_end{};   ///< Time at which the last has ended.
  };

  void note_view(std::vector<taken_view>& all, const membership::view& x,
                 caf::timespan time, const process_life& by) {
    auto found = std::ranges::find(all, x, &taken_view::content);
    if (found == all.end())
      found = all.insert(found, {x, time});
    found->first = std::min(found->first, time);
    found->have_all_ended &= by.ended_at.has_value();
    found->last_end = std::max(found->last_end, by.ended_at.value_or(0ms));
  }

  /// A view has one content. If the launcher has said which processes live, the
  /// dead may have agreed on a view that the others do not know. These agree on
  /// another one with the same number when all that know the first have ended.
  void check_views() {
    std::map<std::uint64_t, std::vector<taken_view>> taken;
    for (const auto& life : job_.lives()) {
      std::uint64_t last = 0;
      for (std::size_t i = 0; i < life->views.size(); ++i) {
        const auto& x = life->views[i];
        if (x.view_id <= last)
          fail("the views of " + name(*life) + " do not count");
        last = x.view_id;
        out_.view_changes =
          std::max<std::size_t>(out_.view_changes, x.view_id - 1);
        note_view(taken[x.view_id], x, life->view_times[i], *life);
        check_placement(x);
      }
    }
    for (auto& [id, all] : taken) {
      std::ranges::sort(all, {}, &taken_view::first);
      for (std::size_t i = 0; i + 1 < all.size(); ++i)
        if (job_.survivors_named() == 0 || !all[i].have_all_ended
            || all[i].last_end > all[i + 1].first)
          fail("view " + std::to_string(id)
               + " has two contents: " + hosts(all[i].content) + " and "
               + hosts(all[i + 1].content) + "; " + states());
      views_.emplace(id, all.back().content);
    }
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
    std::set<std::pair<std::uint64_t, std::uint64_t>> known;
    for (const auto& [view_id, number] : job_.chiefs()) {
      const auto& life = *job_.lives()[number - 1];
      if (!known.emplace(view_id, number).second)
        fail("view " + std::to_string(view_id) + " has two chiefs in "
             + name(life));
      const auto own =
        std::ranges::find(life.views, view_id, &membership::view::view_id);
      const auto* content = own != life.views.end() ? &*own : nullptr;
      if (const auto other = views_.find(view_id);
          !content && other != views_.end())
        content = &other->second;
      if (content && content->members.at(0).incarnation != life.incarnation)
        fail("another process than the first one leads view "
             + std::to_string(view_id));
    }
  }

  void check_life(const process_life& life) {
    const auto& expected = undisturbed(plan_.program);
    const auto& record = records_[life.number];
    if (life.gave_up_too_early)
      fail(name(life) + " has given up the job, and could go on at once");
    if (!life.is_completed)
      return;
    if (record.result.end == fit_end::left) {
      ++out_.left;
      if (!leavers_.contains(life.number))
        fail(name(life) + " has left, but was not asked to");
    }
    if (record.result.end != fit_end::done)
      return;
    ++out_.completed;
    out_.completed_tasks.insert(life.task);
    out_.joined += life.joins;
    if (record.result.text != expected.result.text)
      fail(name(life) + " has other results than the undisturbed job:\n"
           + record.result.text + "instead of\n" + expected.result.text);
    if (plan_.program == job_program::fits && !has_joined_chief()
        && told_to_chiefs_ != recovery_steps)
      fail(name(life) + " has completed the job, but the chiefs were told of "
           + std::to_string(told_to_chiefs_) + " steps");
    if (!life.joins && record.steps.size() != recovery_steps)
      fail(name(life) + " has completed the job after "
           + std::to_string(record.steps.size()) + " steps");
    const auto& weights = record.result.weights;
    const auto variables = expected.result.weights.size();
    for (std::size_t i = 0; i < weights.size(); i += variables) {
      const tensors copy(weights.begin() + std::ptrdiff_t(i),
                         weights.begin() + std::ptrdiff_t(i + variables));
      if (const auto text = difference(copy, expected.result.weights);
          !text.empty())
        fail("the weights of " + name(life) + " differ: " + text);
    }
  }

  /// The job must be completed if enough members of its newest view remain that
  /// had no fault. A member that died when the others had given up, or just
  /// before, does not count as dead.
  void check_newest_view() {
    if (out_.completed > 0 || views_.empty())
      return;
    const auto& newest = views_.rbegin()->second;
    const auto& members = newest.members;
    std::size_t unhurt = 0;
    caf::timespan first_end = time_limit_, last_death{0};
    bool others_are_dead = plan_.on_one_host;
    // The process that has agreed on the newest view may have died or was
    // stopped before it has told the others.
    bool has_state = false;
    caf::timespan known_since = time_limit_;
    for (const auto& x : members) {
      const auto& life =
        *std::ranges::find(job_.lives(), x.incarnation,
                           [](const auto& one) { return one->incarnation; });
      if (life->state == process_life::fate::killed) {
        last_death = std::max(last_death, *life->ended_at);
      } else if (!lost_.contains(life->number) && !cuts_.contains(life->number)
                 && !leavers_.contains(life->number)) {
        ++unhurt;
        if (life->ended_at)
          first_end = std::min(first_end, *life->ended_at);
        has_state |= !life->joins;
        if (life->views.back().view_id == newest.view_id)
          known_since = std::min(known_since, life->view_times.back());
      } else {
        others_are_dead = false;
      }
    }
    others_are_dead &= last_death + death_is_known_after <= first_end;
    if (has_state && known_since + view_is_known_after <= first_end
        && (2 * unhurt + (others_are_dead ? 1 : 0) > members.size()
            || (plan_.has_launcher && others_are_dead)))
      fail("no process has completed the job, but enough remain: " + states());
  }

  /// True if a process is not a member that had not completed its program when
  /// the view was taken.
  bool excludes_a_process(const membership::view& view) const {
    auto since = caf::timespan::max();
    for (const auto& life : job_.lives())
      for (std::size_t i = 0; i < life->views.size(); ++i)
        if (life->views[i].view_id == view.view_id)
          since = std::min(since, life->view_times[i]);
    return std::ranges::any_of(job_.lives(), [&](const auto& life) {
      return !view.contains(life->task, life->incarnation)
             && (!life->completed_at || *life->completed_at > since);
    });
  }

  /// The job must be completed if more than half of the processes remain, or
  /// half of them while all others are known to be dead. It must also be
  /// completed if a launcher ends all that do not answer, or says that they are
  /// dead.
  void check_completion() {
    std::set<std::uint32_t> tasks;
    for (const auto* lives : {&lost_, &leavers_})
      for (const auto number : *lives)
        tasks.insert(job_.lives()[number - 1]->task);
    const std::size_t n = plan_.processes;
    if (plan_.reconnects && tasks.empty()) {
      // Connections that were cut are made again, so no process is excluded.
      for (const auto& [id, view] : views_)
        if (excludes_a_process(view))
          return fail("view " + std::to_string(id)
                      + " lacks a process, although none was lost: "
                      + states());
      cuts_.clear();
      cut_count_ = 0;
    }
    const auto hit = tasks.size() + cut_count_;
    const bool all_dead = plan_.on_one_host && silent_losses_ == 0
                          && cut_count_ == 0 && leavers_.empty();
    const bool is_known = all_dead && plan_.has_launcher;
    if (hit >= n || (!is_known && 2 * (n - hit) + (all_dead ? 1 : 0) <= n))
      return;
    if (out_.completed == 0)
      return fail("no process has completed the job: " + states());
    if (plan_.has_launcher && silent_losses_ + cut_count_ > 0)
      return; // the launcher may have ended others
    if (silent_losses_ + cut_count_ > 0) {
      // If only some of the others have lost the connection to a process, the
      // process at the other end may be the one that is excluded.
      const auto all_steps = std::ranges::count_if(records_, [](const auto& x) {
        return x.second.steps.size() == recovery_steps;
      });
      if (out_.completed < n - hit
          && (out_.completed == 0 || std::size_t(all_steps) < n - hit))
        fail("only " + std::to_string(out_.completed)
             + " processes have completed the job: " + states());
      return;
    }
    for (const auto& life : job_.lives()) {
      const bool is_hit = lost_.contains(life->number)
                          || cuts_.contains(life->number)
                          || leavers_.contains(life->number);
      const bool is_done =
        life->is_completed
        && records_[life->number].result.end == fit_end::done;
      // A process that has completed its program takes part in no view change.
      const bool is_in_last_call =
        records_[life->number].steps.size() == recovery_steps
        && out_.completed > 0;
      if (!life->joins && !is_hit && !is_done && !is_in_last_call)
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
             + std::to_string(records_[life->number].steps.size()) + " steps";
      if (life->is_completed)
        out +=
          ", end " + std::to_string(int(records_[life->number].result.end));
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
  const std::chrono::seconds time_limit_ = time_limit_of(plan_);
  simulator sim_;
  planned_fault_injector injector_;
  std::vector<pending_fault> pending_; ///< In the order of the plan.
  std::size_t occurred_ = 0;
  std::mt19937_64 rng_;    ///< Draws the time of the programs' own code.
  bool has_begun_ = false; ///< All processes have begun their programs.
  /// A fault has occurred before that. Then the job need not be completed.
  bool is_start_hit_ = false;
  std::uint64_t committed_ = 0; ///< Steps that a process has been told of.
  /// Steps that the program of a chief has been told of.
  std::uint64_t told_to_chiefs_ = 0;
  /// By number of the life: how often its program was in code of its own.
  std::map<std::uint64_t, std::uint64_t> pieces_;
  const job_folder folder_;
  std::optional<saved_position> newest_file_; ///< None: no file was saved.
  std::size_t saves_ = 0; ///< Calls of `save` that have begun.
  std::map<std::uint64_t, training_record> records_; ///< By number of the life.
  std::map<std::uint64_t, membership::view> views_;  ///< By id.
  /// Numbers of the lives that the job may have lost, of lives at the ends of
  /// cut connections, and of lives that were asked to leave.
  std::set<std::uint64_t> lost_, cuts_, leavers_;
  std::size_t cut_count_ = 0;
  /// Number of losses without evidence of a death.
  std::size_t silent_losses_ = 0;
  recovery_result out_;
  elastic_job job_;
};

} // namespace

recovery_result check_recovery(std::uint64_t seed) {
  return check_recovery(seed, random_recovery_plan(seed));
}

recovery_result check_recovery(std::uint64_t seed, const recovery_plan& plan) {
  undisturbed(plan.program); // in no scope of another strategy
  return trial{seed, plan}.run();
}

} // namespace troupe::simulation
