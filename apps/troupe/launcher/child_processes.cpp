#include "troupe/apps/troupe/launcher/child_processes.hpp"

#include "troupe/apps/troupe/launcher/spawn_child.hpp"
#include "troupe/net/cluster/device_loss_report.hpp"
#include "troupe/net/cluster/launcher_link.hpp"
#include "troupe/net/cluster/survivors_ruling.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <fstream>
#include <poll.h>
#include <sstream>
#include <stdexcept>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace std::chrono_literals;

/// Splits one stream into lines.
class line_splitter {
public:
  /// Reads the available data, at most `max_bytes`. Closes the descriptor at
  /// the end of the stream.
  template <class OnLine>
  void read(troupe::net::descriptor& source, std::size_t max_bytes,
            OnLine&& on_line) {
    std::array<char, 16384> buffer;
    while (source && max_bytes > 0) {
      const auto n =
        ::read(source.get(), buffer.data(), std::min(max_bytes, buffer.size()));
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0 && errno == EAGAIN)
        return;
      if (n <= 0)
        return end(source, on_line);
      max_bytes -= static_cast<std::size_t>(n);
      split({buffer.data(), static_cast<std::size_t>(n)}, on_line);
    }
  }

  /// Closes the descriptor. Passes a last line without a line break to
  /// `on_line`.
  template <class OnLine>
  void end(troupe::net::descriptor& source, OnLine&& on_line) {
    source.reset();
    if (!partial_line_.empty())
      on_line(std::exchange(partial_line_, {}));
  }

private:
  template <class OnLine>
  void split(std::string_view text, OnLine&& on_line) {
    while (!text.empty()) {
      const auto free_bytes =
        child_processes::max_line_bytes - partial_line_.size();
      const auto end = text.find('\n');
      const auto size = std::min({end, text.size(), free_bytes});
      partial_line_ += text.substr(0, size);
      text.remove_prefix(size);
      const bool complete = !text.empty() && text.front() == '\n';
      if (complete)
        text.remove_prefix(1);
      if (complete || partial_line_.size() == child_processes::max_line_bytes)
        on_line(std::exchange(partial_line_, {}));
    }
  }

  std::string partial_line_;
};

/// Reads a number. Zero: the text has another form.
std::uint64_t number_in(std::string_view text) {
  std::uint64_t out = 0;
  const auto [end, error] =
    std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size() ? out : 0;
}

bool is_stopped(pid_t id) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(id), &info,
                  WSTOPPED | WNOHANG | WNOWAIT)
           == 0
         && info.si_pid == id;
}

/// Returns how a child has ended. None: it runs, or is no child.
std::optional<siginfo_t> end_of(pid_t id) {
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(id), &info, WEXITED | WNOHANG | WNOWAIT)
        != 0
      || info.si_pid == 0)
    return {};
  return info;
}

bool is_kill(const siginfo_t& end) {
  return end.si_code != CLD_EXITED;
}

/// True if a signal has ended the process, or if it is ending and its exit
/// status is not known yet. The system closes the descriptors of a process, so
/// that others notice its end, before it reports this end to the parent.
/// @source proc_pid_stat(5): the state is the first field after the name, and
///         the flags are the seventh; linux/sched.h: PF_EXITING.
bool is_being_killed(pid_t id) {
  if (const auto end = end_of(id))
    return is_kill(*end);
  constexpr unsigned long exiting = 0x4;
  std::ifstream input{"/proc/" + std::to_string(id) + "/stat"};
  std::string text;
  std::getline(input, text);
  std::istringstream fields{
    text.substr(std::min(text.rfind(')'), text.size()))};
  std::string end_of_name, state, skipped;
  unsigned long flags = 0;
  fields >> end_of_name >> state;
  for (int i = 0; i < 5; ++i)
    fields >> skipped;
  fields >> flags;
  return state == "Z" || (flags & exiting);
}

/// Maximum number of bytes read from one child before the next child is read.
constexpr std::size_t max_read_per_turn = 65536;
/// Maximum number of bytes read from each output pipe of a child after the
/// child has ended. A pipe holds fewer bytes, so all output of the child is
/// read. The limit matters if another process still writes to the pipe.
constexpr std::size_t max_final_output = std::size_t{8} << 20;
/// For how long the record of a failure may wait for the end of another
/// process.
constexpr std::chrono::milliseconds max_end_delay{2'000};
/// How often that end is looked for meanwhile.
constexpr std::chrono::milliseconds end_interval{5};

} // namespace

struct child_processes::child {
  /// A question that has no answer yet.
  struct open_question {
    std::uint64_t number = 0; ///< Number that the process has given it.
    troupe::net::survivors_question asked;
    clock::time_point due;   ///< Time after which it is not considered.
    std::uint64_t order = 0; ///< Ascends over the questions of all processes.
  };

  std::string name;
  child_process process;
  line_splitter out{}, err{}, reports{};
  bool may_fail = false;
  bool joins = false;
  bool ended = false;
  bool is_unreachable = false;  ///< Reported by another one, and killed.
  bool has_begun = false;       ///< It has said that it belongs to its job.
  bool has_left = false;        ///< It has said that it has left its job.
  bool has_lost_device = false; ///< It has left because a device has failed.
  bool is_superseded = false;   ///< As `process_exit::was_superseded`.
  /// What it has asked, and has got no answer to.
  std::optional<open_question> question{};
  bool knows_end = false; ///< `end` has been sent over its link.
  /// Deadline for recording its failure. None: it has not failed.
  std::optional<clock::time_point> recorded_by{};

  std::uint64_t number() const {
    return static_cast<std::uint64_t>(process.id);
  }

  /// Sends a signal to the process group.
  void send(int signal_number) const { ::kill(-process.id, signal_number); }

  /// Sends a line over its link.
  void tell(std::string line) const {
    line += '\n';
    [[maybe_unused]] const auto sent =
      ::send(process.link.get(), line.data(), line.size(),
             MSG_DONTWAIT | MSG_NOSIGNAL);
  }

  /// Sends a signal that ends the process. A child that does not read its link
  /// gets the signal only.
  void end_by(int signal_number) {
    if (!std::exchange(knows_end, true))
      tell(troupe::net::launcher_link::end_line);
    send(signal_number);
  }

  template <class OnLine>
  void read(const OnLine& on_line) {
    const auto writer = [&](bool is_out) {
      return [&on_line, is_out, this](std::string_view line) {
        if (on_line)
          on_line(name, is_out, line);
      };
    };
    const auto max_bytes = ended ? max_final_output : max_read_per_turn;
    out.read(process.out, max_bytes, writer(true));
    err.read(process.err, max_bytes, writer(false));
    if (!ended)
      return;
    out.end(process.out, writer(true));
    err.end(process.err, writer(false));
  }
};

std::string reason(const process_exit& ended) {
  if (ended.signal == 0)
    return "exit code " + std::to_string(ended.code);
  return "signal " + std::to_string(ended.signal) + " ("
         + ::strsignal(ended.signal) + ")";
}

child_processes::child_processes(child_processes_options options)
  : options_{std::move(options)},
    exit_events_{::epoll_create1(EPOLL_CLOEXEC)},
    guard_{std::make_unique<group_guard>()} {
  if (!exit_events_)
    throw std::runtime_error(std::string{"cannot watch processes: "}
                             + std::strerror(errno));
}

child_processes::~child_processes() {
  options_.on_line = nullptr;
  options_.on_end = nullptr;
  signal(SIGTERM);
  next_signal_ = SIGKILL;
  while (running())
    poll_once(1s);
}

void child_processes::start(const process_spec& spec) {
  children_.push_back(std::make_unique<child>(
    child{spec.name, spawn_child(spec, options_.is_job)}));
  children_.back()->may_fail = spec.may_fail;
  children_.back()->joins = spec.joins;
  guard_->add(children_.back()->process.id);
  auto& added = *children_.back();
  epoll_event event{EPOLLIN, {&added}};
  if (::epoll_ctl(exit_events_.get(), EPOLL_CTL_ADD, added.process.pidfd.get(),
                  &event)
      == 0)
    return;
  const std::string error = std::strerror(errno);
  ::kill(-added.process.id, SIGKILL);
  guard_->remove(added.process.id);
  ::waitpid(added.process.id, nullptr, 0);
  children_.pop_back();
  throw std::runtime_error("cannot watch " + spec.name + ": " + error);
}

bool child_processes::running() const {
  return std::ranges::any_of(children_,
                             [](const auto& x) { return !x->ended; });
}

void child_processes::send(int signal_number) {
  for (const auto& x : children_)
    if (!x->ended)
      x->end_by(signal_number);
}

void child_processes::send(const std::string& name, int signal_number) {
  for (const auto& x : children_)
    if (!x->ended && x->name == name)
      x->end_by(signal_number);
}

void child_processes::signal(int signal_number) {
  signal(signal_number, [](const std::string&) { return true; });
}

void child_processes::signal(
  int signal_number, const std::function<bool(const std::string& name)>& gets) {
  for (const auto& x : children_)
    if (!x->ended && gets(x->name))
      x->end_by(signal_number);
  if (!due_)
    schedule_signal(options_.grace_period, SIGTERM);
}

void child_processes::supersede() {
  has_begun_ = false;
  for (const auto& x : children_)
    if (!x->ended) {
      x->is_superseded = true;
      x->send(SIGKILL);
    }
}

void child_processes::expect_end() {
  if (!due_)
    schedule_signal(options_.grace_period, SIGTERM);
}

std::vector<job_process> child_processes::running_processes() const {
  std::vector<job_process> out;
  for (const auto& x : children_)
    if (!x->ended)
      out.push_back({x->has_begun, x->has_left, x->joins});
  return out;
}

std::vector<std::string> child_processes::joining() const {
  std::vector<std::string> out;
  for (const auto& x : children_)
    if (!x->ended && !x->has_begun)
      out.push_back(x->name);
  return out;
}

bool child_processes::completes_job(const process_exit& end) const {
  return options_.is_job && end.completed()
         && (options_.chief.empty() || end.name == options_.chief);
}

bool child_processes::is_job_done() const {
  return std::ranges::any_of(
    ended_, [this](const process_exit& x) { return completes_job(x); });
}

void child_processes::schedule_signal(std::chrono::milliseconds delay,
                                      int signal_number) {
  due_ = clock::now() + delay;
  next_signal_ = signal_number;
}

/// Sends SIGTERM to each process, but SIGKILL to a stopped process. SIGTERM
/// would reach a stopped process only after SIGCONT.
void child_processes::request_end() {
  for (const auto& x : children_)
    if (!x->ended)
      x->end_by(is_stopped(x->process.id) ? SIGKILL : SIGTERM);
}

/// Kills the stopped processes after another process has failed, and notes
/// their names for the error message. The other process may have failed because
/// it waited for a stopped process until a timeout.
void child_processes::kill_stopped() {
  for (const auto& x : children_)
    if (!x->ended && is_stopped(x->process.id)) {
      stopped_note_ +=
        "; " + x->name + " was stopped at that time and was killed";
      x->send(SIGKILL);
    }
}

/// The job is done, so a process that has not joined it yet cannot do so.
void child_processes::end_joining() {
  for (const auto& x : children_)
    if (!x->ended && x->joins && !x->has_begun)
      x->end_by(SIGTERM);
}

/// If the time of the next signal has come, sends it to the processes that
/// still run, and schedules SIGKILL as the next signal.
void child_processes::escalate_shutdown() {
  if (!due_ || clock::now() < *due_)
    return;
  next_signal_ == SIGTERM ? request_end() : send(next_signal_);
  schedule_signal(next_signal_ == SIGKILL ? 1s : options_.grace_period,
                  SIGKILL);
}

int child_processes::poll_timeout(std::chrono::milliseconds max_wait) const {
  using std::chrono::ceil;
  using std::chrono::milliseconds;
  auto wait = max_wait;
  if (due_)
    wait = std::min(wait, ceil<milliseconds>(*due_ - clock::now()));
  for (const auto& x : children_)
    if (x->question)
      wait =
        std::min(wait, ceil<milliseconds>(x->question->due - clock::now()));
  return static_cast<int>(std::clamp(wait, 0ms, milliseconds{60'000}).count());
}

/// True if another process of the job is being killed. `failed` may have failed
/// because of that, so the other one is recorded first, unless that takes long.
bool child_processes::may_follow_a_kill(child& failed) const {
  if (!options_.is_job || due_)
    return false;
  if (!failed.recorded_by)
    failed.recorded_by = clock::now() + max_end_delay;
  return clock::now() < *failed.recorded_by
         && std::ranges::any_of(children_, [&](const auto& x) {
              return x.get() != &failed && !x->ended
                     && is_being_killed(x->process.id);
            });
}

/// If the process has ended: kills the rest of its process group, records its
/// exit, and starts the grace period at the first failure.
void child_processes::reap(child& target) {
  const auto found = end_of(target.process.id);
  if (!found)
    return;
  const bool killed = is_kill(*found);
  if (!killed && found->si_status != 0 && may_follow_a_kill(target))
    return;
  read_reports(target, max_final_output); // it may have left
  // Kill the group before `waitpid`: afterwards the id may be reused.
  target.send(SIGKILL);
  guard_->remove(target.process.id);
  ::waitpid(target.process.id, nullptr, 0);
  target.ended = true;
  target.process.pidfd.reset();
  ended_.push_back(
    {target.name, found->si_status + (killed ? 128 : 0),
     killed ? found->si_status : 0, target.may_fail || target.has_left,
     target.has_left, target.has_lost_device, target.is_superseded,
     target.joins, target.has_begun,
     std::ranges::any_of(running_processes(), [](const job_process& x) {
       return x.has_begun && !x.has_left;
     })});
  auto& end = ended_.back();
  if (options_.on_end)
    options_.on_end(end);
  if (options_.is_job && options_.is_loss && end.failed() && !killed
      && !end.left && !due_ && !is_job_done())
    end.may_fail |= options_.is_loss(end);
  const bool fails = end.failed() && !end.may_fail && !is_job_done()
                     && !(options_.is_job && end.signal != 0);
  if (fails && !failure_) {
    failure_ = end;
    kill_stopped();
  }
  if (fails || completes_job(end))
    expect_end();
  if (completes_job(end))
    end_joining();
}

void child_processes::read_reports(child& sender, std::size_t max_bytes) {
  sender.reports.read(sender.process.link, max_bytes,
                      [&](std::string_view line) { on_report(sender, line); });
}

/// Kills the process that another one has reported. Of two that report each
/// other, the first report decides.
void child_processes::on_report(child& sender, std::string_view line) {
  using link = troupe::net::launcher_link;
  constexpr std::string_view start = link::unreachable_line;
  pid_t number = 0;
  sender.has_lost_device |= line == troupe::net::device_lost_line;
  sender.has_left |= line == link::left_line || sender.has_lost_device;
  sender.has_begun |= line == link::begun_line;
  has_begun_ |= sender.has_begun;
  if (const std::string_view prefix{link::candidate_line};
      line.starts_with(prefix)) // also of a process that is being killed
    on_candidate(line.substr(prefix.size()));
  if (!options_.is_job || sender.is_unreachable)
    return;
  if (const std::string_view prefix{link::survivors_line};
      line.starts_with(prefix))
    on_question(sender, line.substr(prefix.size()));
  if (line == link::withdrawn_line)
    sender.question.reset();
  if (!line.starts_with(start))
    return;
  line.remove_prefix(start.size());
  std::from_chars(line.data(), line.data() + line.size(), number);
  for (const auto& x : children_)
    if (x->process.id == number && x.get() != &sender && !x->ended)
      kill_unreachable(*x);
}

/// @returns false if it was killed before.
bool child_processes::kill_unreachable(child& target) {
  if (std::exchange(target.is_unreachable, true))
    return false;
  if (options_.on_unreachable)
    options_.on_unreachable(target.name);
  target.send(SIGKILL);
  return true;
}

/// A process has asked a worker to join the job.
/// @param words its number and its start time.
void child_processes::on_candidate(std::string_view words) {
  const auto space = words.find(' ');
  const auto number = number_in(words.substr(0, space));
  const auto start_time =
    number_in(space == words.npos ? "" : words.substr(space + 1));
  has_foreign_worker_ |= std::ranges::none_of(children_, [&](const auto& x) {
    return x->number() == number && x->process.start_time == start_time;
  });
}

/// @param words number of the question, and the question.
void child_processes::on_question(child& sender, std::string_view words) {
  const auto space = std::min(words.find(' '), words.size());
  const auto number = number_in(words.substr(0, space));
  const auto asked = troupe::net::parse_survivors_question(words.substr(space));
  sender.question.reset();
  if (asked && number > 0)
    sender.question = {number, *asked,
                       clock::now()
                         + troupe::net::launcher_link::question_timeout,
                       ++questions_};
}

child_processes::child*
child_processes::running_child(std::uint64_t number) const {
  const auto found = std::ranges::find_if(children_, [number](const auto& x) {
    return !x->ended && x->number() == number;
  });
  return found == children_.end() ? nullptr : found->get();
}

/// Considers the questions in the order in which they were asked, first those
/// of processes that have the state of the job. If all processes wait, the
/// first one is not ended.
void child_processes::consider_questions() {
  std::vector<child*> askers;
  for (const auto& x : children_)
    if (x->question)
      askers.push_back(x.get());
  std::ranges::sort(askers, {}, [](const child* x) {
    return std::pair{!x->has_begun, x->question->order};
  });
  for (auto* const x : askers)
    consider_question(*x);
}

/// Decides the question of a process.
/// @param stopped_wait those that are stopped count as processes that wait.
troupe::net::survivors_ruling
child_processes::rule_on_question(const child& asker, bool stopped_wait) const {
  std::vector<troupe::net::open_question> open;
  for (const auto& x : children_)
    if (!x->ended && x->question)
      open.push_back({x->number(), x->question->asked});
  std::vector<troupe::net::launched_process> living;
  std::vector<std::uint64_t> waiting;
  for (const auto& x : children_) {
    if (x->ended)
      continue;
    living.push_back({x->number(), x->has_begun, x->has_left});
    if (x->is_unreachable || troupe::net::waits_for_ruling(x->number(), open)
        || (stopped_wait && is_stopped(x->process.id)))
      waiting.push_back(x->number());
  }
  return troupe::net::rule_on_waiting(asker.question->asked, asker.number(),
                                      living, waiting);
}

/// Answers the question of a worker, or ends the processes that must end before
/// that.
void child_processes::consider_question(child& asker) {
  using link = troupe::net::launcher_link;
  const auto& [number, asked, due, order] = *asker.question;
  const auto is_child = [this](std::uint64_t x) {
    return std::ranges::any_of(
      children_, [x](const auto& one) { return one->number() == x; });
  };
  const bool is_done = due_ || is_job_done();
  if (asker.ended || asker.is_unreachable)
    return asker.question.reset();
  const bool is_decidable = !is_done && !has_foreign_worker_
                            && std::ranges::all_of(asked.members, is_child);
  // A process that is stopped at the end of that time does not answer.
  const bool is_due = clock::now() >= due;
  const auto ruling = rule_on_question(asker, is_due);
  if (is_decidable && ruling.is_certain()) {
    asker.tell(link::survivors_line + std::to_string(number));
    return asker.question.reset();
  }
  if (is_decidable && end_for(ruling)) {
    asker.question->due = clock::now() + link::question_timeout;
  } else if (!is_decidable || is_due) {
    asker.tell(link::undecided_line + std::to_string(number));
    asker.question.reset();
  }
}

/// Ends the processes that must end before a question can be answered.
/// @returns false if none had to be ended, or all were ended before.
bool child_processes::end_for(const troupe::net::survivors_ruling& ruling) {
  bool is_killing = false;
  for (const auto x : ruling.unreachable)
    is_killing |= kill_unreachable(*running_child(x));
  for (const auto x : ruling.starting) {
    auto& target = *running_child(x);
    if (std::exchange(target.is_superseded, true))
      continue;
    target.send(SIGKILL);
    is_killing = true;
  }
  return is_killing;
}

void child_processes::reap_exited() {
  std::array<epoll_event, 64> events;
  const auto n =
    ::epoll_wait(exit_events_.get(), events.data(), events.size(), 0);
  if (n > 0) // what the others have said before counts
    for (const auto& x : children_)
      read_reports(*x, max_read_per_turn);
  for (int i = 0; i < n; ++i)
    reap(*static_cast<child*>(events[static_cast<std::size_t>(i)].data.ptr));
}

void child_processes::poll_once(std::chrono::milliseconds max_wait, int extra) {
  // The end of a process whose record waits stays readable.
  const bool waits = std::ranges::any_of(
    children_, [](const auto& x) { return x->recorded_by && !x->ended; });
  if (waits)
    max_wait = std::min(max_wait, end_interval);
  std::vector<pollfd> descriptors{{extra, POLLIN, 0},
                                  {waits ? -1 : exit_events_.get(), POLLIN, 0}};
  for (const auto& x : children_)
    for (const auto* fd : {&x->process.out, &x->process.err, &x->process.link})
      descriptors.push_back({fd->get(), POLLIN, 0});
  ::poll(descriptors.data(), descriptors.size(), poll_timeout(max_wait));
  reap_exited();
  for (const auto& x : children_)
    read_reports(*x, max_read_per_turn);
  consider_questions();
  for (const auto& x : children_)
    x->read(options_.on_line);
  escalate_shutdown();
}
