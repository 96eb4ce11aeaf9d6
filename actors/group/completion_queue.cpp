#include "troupe/actors/group/completion_queue.hpp"

#include "troupe/net/base/text.hpp"

#include <stdexcept>
#include <utility>

namespace troupe {

std::uint64_t work_desk::begin() {
  const std::lock_guard hold{lock_};
  if (gone_)
    throw failure{*gone_};
  if (running_ || visiting_)
    throw std::logic_error("run was called while another run or for_each is "
                           "active");
  running_ = true;
  commits_.clear();
  next_.reset();
  failure_.reset();
  return ++run_;
}

std::optional<std::uint64_t> work_desk::follow(
  const std::function<void(const commit_record&, bool)>& on_commit,
  std::chrono::milliseconds patience) {
  std::unique_lock hold{lock_};
  const auto heard = [this] { return !commits_.empty() || next_ || failure_; };
  while (waiter_->wait(hold, heard, patience)) {
    while (!commits_.empty()) {
      const auto record = std::move(commits_.front());
      commits_.pop_front();
      const bool more = !commits_.empty();
      hold.unlock();
      on_commit(record, more);
      hold.lock();
    }
    if (!next_ && !failure_)
      continue;
    running_ = false;
    if (failure_)
      throw failure{*std::exchange(failure_, std::nullopt)};
    return next_;
  }
  running_ = false;
  return std::nullopt;
}

std::uint64_t work_desk::begin_visits(const crew::share& whom) {
  const std::lock_guard hold{lock_};
  if (running_ || visiting_)
    throw std::logic_error("for_each was called while a run or another "
                           "for_each is active");
  visiting_ = true;
  problem_.clear();
  unvisited_.clear();
  for (std::uint32_t i = 0; i < whom.count; ++i)
    unvisited_.insert(whom.first + i);
  return ++visit_;
}

void work_desk::follow_visits(std::chrono::milliseconds patience) {
  std::unique_lock hold{lock_};
  const bool all = waiter_->wait(
    hold, [this] { return unvisited_.empty(); }, patience);
  visiting_ = false;
  if (!all)
    throw failure(ec::stalled,
                  "for " + std::to_string(patience.count()) + " ms replica "
                    + std::to_string(*unvisited_.begin())
                    + " did not run the function given to for_each");
  if (!problem_.empty())
    throw failure(ec::invalid, std::exchange(problem_, {}));
}

std::optional<std::uint64_t> work_desk::running() {
  const std::lock_guard hold{lock_};
  return running_ ? std::optional{run_} : std::nullopt;
}

bool work_desk::chief_ended() {
  const std::lock_guard hold{lock_};
  return gone_.has_value();
}

bool work_desk::await(const std::function<bool()>& done,
                      std::chrono::milliseconds patience) {
  std::unique_lock hold{lock_};
  return waiter_->wait(hold, done, patience);
}

bool work_desk::await_ends(std::size_t roles,
                           std::chrono::milliseconds patience) {
  return await([&] { return ended_ >= roles; }, patience);
}

template <class F>
void work_desk::note(F&& change) {
  {
    const std::lock_guard hold{lock_};
    change();
  }
  waiter_->notify();
}

void work_desk::committed(std::uint64_t run, commit_record&& x) {
  note([&] {
    if (run == run_)
      commits_.push_back(std::move(x));
  });
}

void work_desk::ended(std::uint64_t run, std::uint64_t next) {
  note([&] {
    if (run == run_)
      next_ = next;
  });
}

void work_desk::given_up(std::uint64_t run, ec code, std::string&& why) {
  note([&] {
    if (run == run_ && !failure_)
      failure_.emplace(code, net::printable_lines(why)); // peers send it too
  });
}

void work_desk::no_more(ec code, const std::string& why) {
  note([&] {
    if (!gone_)
      gone_.emplace(code, why);
    if (running_ && !next_ && !failure_) // also a run the chief never received
      failure_ = gone_;
  });
}

void work_desk::visited(std::uint64_t visit, std::uint32_t replica,
                        std::string&& problem) {
  note([&] {
    if (visit != visit_)
      return; // that task has timed out
    unvisited_.erase(replica);
    if (!problem.empty() && problem_.empty())
      problem_ = "replica " + std::to_string(replica) + ": " + problem;
  });
}

void work_desk::one_ended(bool chief) {
  if (chief)
    no_more(ec::cancelled, chief_is_gone);
  note([&] { ++ended_; });
}

void work_desk::nudge() {
  note([] {});
}

} // namespace troupe
