#include "troupe/tests/strategies/random_job.hpp"

#include <algorithm>

namespace troupe {

void random_job::fail(const std::string& what) {
  if (problem_.empty())
    problem_ = "at " + std::to_string(now_) + ": " + what;
}

void random_job::meet(std::string_view fault, std::uint64_t process,
                      std::string_view detail) {
  count(fault);
  auto pair = std::string{fault} + ": ";
  if (!detail.empty())
    pair.append(detail).append(", ");
  reach(pair + state_of(process));
}

void random_job::at(std::uint64_t delay, std::function<void()> action) {
  events_.emplace(std::pair{now_ + delay, ++order_}, std::move(action));
}

void random_job::deliver(std::uint64_t sender, std::uint64_t receiver,
                         std::string_view message,
                         const std::function<void()>& action) {
  if (!has_faults_)
    return schedule(sender, receiver, message, 1 + below(max_delay_), action);
  std::erase_if(cuts_, [this](const cut& x) { return x.until <= now_; });
  for (const auto& one : cuts_)
    if (one.senders.contains(sender) && one.receivers.contains(receiver)) {
      meet(one.holds ? "messages held by a cut" : "messages lost by a cut",
           receiver, message);
      if (one.holds)
        at(one.until - now_ + below(max_delay_), action);
      return;
    }
  if (chance(loss_percent_))
    return meet("messages lost", receiver, message);
  if (chance(loss_percent_)) {
    meet("messages repeated", receiver, message);
    schedule(sender, receiver, message, 1 + below(3 * max_delay_), action);
  }
  auto delay = 1 + below(max_delay_);
  if (chance(late_percent_)) {
    meet("messages late", receiver, message);
    delay += below(30 * max_delay_);
  }
  schedule(sender, receiver, message, delay, action);
}

/// Delivers a message after this time.
void random_job::schedule(std::uint64_t sender, std::uint64_t receiver,
                          std::string_view message, std::uint64_t delay,
                          const std::function<void()>& action) {
  auto& last = arrivals_[{sender, receiver}];
  if (now_ + delay < last)
    meet("messages overtaking", receiver, message);
  last = std::max(last, now_ + delay);
  at(delay, action);
}

void random_job::cut_links(const std::vector<std::uint64_t>& processes) {
  if (processes.size() < 2)
    return;
  cut made;
  made.until = now_ + 1 + below(300);
  made.holds = chance(50);
  bool is_one_way = false;
  const auto chosen = processes[below(processes.size())];
  const auto shape = below(5);
  if (shape < 2) { // one process from all others
    meet("processes cut off", chosen);
    made.senders = {chosen};
  } else if (shape < 4) { // one link
    meet("links cut", chosen);
    made.senders = {chosen};
    made.receivers = {processes[below(processes.size())]};
    is_one_way = chance(50);
  } else {
    count("divisions of the network");
    for (const auto one : processes)
      if (chance(50))
        made.senders.insert(one);
  }
  if (made.receivers.empty())
    for (const auto one : processes)
      if (!made.senders.contains(one))
        made.receivers.insert(one);
  cuts_.push_back(made);
  if (is_one_way)
    return;
  std::swap(made.senders, made.receivers);
  cuts_.push_back(std::move(made));
}

void random_job::cut_links(std::set<std::uint64_t> senders,
                           std::set<std::uint64_t> receivers,
                           std::uint64_t max_duration) {
  cuts_.push_back({std::move(senders), std::move(receivers),
                   now_ + 1 + below(max_duration), chance(50)});
}

void random_job::end_faults() {
  has_faults_ = false;
  cuts_.clear();
}

void random_job::run_until(std::uint64_t end,
                           const std::function<bool()>& done) {
  while (problem_.empty() && !done() && !events_.empty()
         && events_.begin()->first.first <= end) {
    const auto next = events_.extract(events_.begin());
    now_ = next.key().first;
    next.mapped()();
  }
  if (!done())
    now_ = std::max(now_, end);
}

} // namespace troupe
