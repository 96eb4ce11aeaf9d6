#include "child_processes.hpp"

#include "spawn_child.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <poll.h>
#include <stdexcept>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace std::chrono_literals;

/// Splits one stream into lines.
class lines {
public:
  /// Reads the available data, at most `max_bytes`. Closes the descriptor at
  /// the end of the stream.
  template <class Say>
  void read(troupe::net::descriptor& from, std::size_t most, Say&& say) {
    std::array<char, 16384> some;
    while (from && most > 0) {
      const auto n =
        ::read(from.get(), some.data(), std::min(most, some.size()));
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0 && errno == EAGAIN)
        return;
      if (n <= 0)
        return end(from, say);
      most -= static_cast<std::size_t>(n);
      cut({some.data(), static_cast<std::size_t>(n)}, say);
    }
  }

  /// Closes the descriptor and passes on a last line without a line break.
  template <class Say>
  void end(troupe::net::descriptor& from, Say&& say) {
    from.reset();
    if (!rest_.empty())
      say(std::exchange(rest_, {}));
  }

private:
  template <class Say>
  void cut(std::string_view text, Say&& say) {
    while (!text.empty()) {
      const auto room = children::longest_line - rest_.size();
      const auto end = text.find('\n');
      const auto size = std::min({end, text.size(), room});
      rest_ += text.substr(0, size);
      text.remove_prefix(size);
      const bool whole = !text.empty() && text.front() == '\n';
      if (whole)
        text.remove_prefix(1);
      if (whole || rest_.size() == children::longest_line)
        say(std::exchange(rest_, {}));
    }
  }

  std::string rest_;
};

bool is_stopped(pid_t id) {
  siginfo_t news{};
  return ::waitid(P_PID, static_cast<id_t>(id), &news,
                  WSTOPPED | WNOHANG | WNOWAIT)
           == 0
         && news.si_pid == id;
}

/// Maximum number of bytes read from one child before the next child is read.
constexpr std::size_t fair_share = 65536;
/// Maximum number of bytes read after a child has ended; more than a pipe
/// holds.
constexpr std::size_t last_words = std::size_t{8} << 20;

} // namespace

struct children::child {
  std::string name;
  process it;
  lines out{}, err{};
  bool ended = false;

  template <class Say>
  void read(const Say& say) {
    const auto to = [&](bool is_out) {
      return [&say, is_out, this](std::string_view line) {
        if (say)
          say(name, is_out, line);
      };
    };
    const auto most = ended ? last_words : fair_share;
    out.read(it.out, most, to(true));
    err.read(it.err, most, to(false));
    if (!ended)
      return;
    out.end(it.out, to(true));
    err.end(it.err, to(false));
  }
};

std::string reason(const child_end& x) {
  if (x.signal == 0)
    return "exit code " + std::to_string(x.code);
  return "signal " + std::to_string(x.signal) + " (" + ::strsignal(x.signal)
         + ")";
}

children::children(children_options options)
  : options_{std::move(options)}, ends_{::epoll_create1(EPOLL_CLOEXEC)} {
  if (!ends_)
    throw std::runtime_error(std::string{"cannot watch processes: "}
                             + std::strerror(errno));
}

children::~children() {
  options_.on_line = nullptr;
  signal(SIGTERM);
  next_ = SIGKILL;
  while (running())
    pump(1s);
}

void children::start(const child_program& what) {
  all_.push_back(
    std::make_unique<child>(child{what.name, start_process(what)}));
  auto& x = *all_.back();
  epoll_event event{EPOLLIN, {&x}};
  if (::epoll_ctl(ends_.get(), EPOLL_CTL_ADD, x.it.life.get(), &event) == 0)
    return;
  const std::string why = std::strerror(errno);
  ::kill(-x.it.id, SIGKILL);
  ::waitpid(x.it.id, nullptr, 0);
  all_.pop_back();
  throw std::runtime_error("cannot watch " + what.name + ": " + why);
}

bool children::running() const {
  return std::ranges::any_of(all_, [](const auto& x) { return !x->ended; });
}

void children::send(int number) {
  for (const auto& x : all_)
    if (!x->ended)
      ::kill(-x->it.id, number); // its group
}

void children::signal(int number) {
  send(number);
  if (!due_)
    close_in(options_.grace, SIGTERM);
}

void children::close_in(std::chrono::milliseconds time, int number) {
  due_ = clock::now() + time;
  next_ = number;
}

/// Sends SIGTERM, or SIGKILL to a stopped process: SIGTERM would stay pending
/// until the process is continued.
void children::ask_to_end() {
  for (const auto& x : all_)
    if (!x->ended)
      ::kill(-x->it.id, is_stopped(x->it.id) ? SIGKILL : SIGTERM);
}

/// Kills the stopped processes and notes their names. The failed process may
/// have waited for one of them.
void children::kill_stopped() {
  for (const auto& x : all_)
    if (!x->ended && is_stopped(x->it.id)) {
      stopped_ += "; " + x->name + " was stopped then, and was killed";
      ::kill(-x->it.id, SIGKILL);
    }
}

/// Sends the signal that is due to processes that still run, and schedules
/// SIGKILL as the next one.
void children::press() {
  if (!due_ || clock::now() < *due_)
    return;
  next_ == SIGTERM ? ask_to_end() : send(next_);
  close_in(next_ == SIGKILL ? 1s : options_.grace, SIGKILL);
}

int children::patience(std::chrono::milliseconds at_most) const {
  using std::chrono::ceil;
  using std::chrono::milliseconds;
  auto time = at_most;
  if (due_)
    time = std::min(time, ceil<milliseconds>(*due_ - clock::now()));
  return static_cast<int>(std::clamp(time, 0ms, milliseconds{60'000}).count());
}

/// If the process has ended: kills the rest of its process group, records its
/// exit, and starts the grace period at the first failure.
void children::reap(child& x) {
  siginfo_t news{};
  const auto id = static_cast<id_t>(x.it.id);
  if (::waitid(P_PID, id, &news, WEXITED | WNOHANG | WNOWAIT) != 0
      || news.si_pid == 0)
    return;
  ::kill(-x.it.id,
         SIGKILL); // before `waitpid`, after which the id may be reused
  ::waitpid(x.it.id, nullptr, 0);
  x.ended = true;
  x.it.life.reset();
  const bool killed = news.si_code != CLD_EXITED;
  ended_.push_back(
    {x.name, news.si_status + (killed ? 128 : 0), killed ? news.si_status : 0});
  if (ended_.back().failed() && !failure_) {
    failure_ = ended_.back();
    kill_stopped();
    if (!due_)
      close_in(options_.grace, SIGTERM);
  }
}

void children::hear_of_ends() {
  std::array<epoll_event, 64> news;
  const auto n = ::epoll_wait(ends_.get(), news.data(), news.size(), 0);
  for (int i = 0; i < n; ++i)
    reap(*static_cast<child*>(news[static_cast<std::size_t>(i)].data.ptr));
}

void children::pump(std::chrono::milliseconds at_most, int also) {
  std::vector<pollfd> open{{also, POLLIN, 0}, {ends_.get(), POLLIN, 0}};
  for (const auto& x : all_)
    for (const auto* fd : {&x->it.out, &x->it.err})
      open.push_back({fd->get(), POLLIN, 0});
  ::poll(open.data(), open.size(), patience(at_most));
  hear_of_ends();
  for (const auto& x : all_)
    x->read(options_.on_line);
  press();
}
