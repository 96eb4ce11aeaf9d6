#include "troupe/actors/control/status_survey.hpp"

#include "troupe/actors/control/chief.hpp"
#include "troupe/actors/protocol/type_ids.hpp"
#include "troupe/strategies/membership/rendezvous.hpp"

#include <algorithm>

// Status of the job: its step rate, and why the next step is not committed.

namespace troupe {

namespace {

using namespace std::chrono_literals;

constexpr auto window = 10s;
constexpr auto grain = 250ms;
constexpr std::size_t most_askers = 64;

/// Maximum duration of a status survey.
constexpr std::chrono::milliseconds longest_survey{300};

std::uint64_t ms_between(job_pace::time_point a, job_pace::time_point b) {
  return static_cast<std::uint64_t>(
    std::chrono::duration_cast<std::chrono::milliseconds>(b - a).count());
}

} // namespace

void job_pace::begin(time_point now, std::uint64_t next) {
  marks_.assign(1, {now, next});
  last_ = marks_.front();
}

void job_pace::commit(time_point now, std::uint64_t next) {
  last_ = {now, next};
  if (marks_.empty() || now - marks_.back().at >= grain)
    marks_.push_back(last_);
  while (marks_.size() > 1 && now - marks_[1].at > window)
    marks_.pop_front();
}

void job_pace::tell(time_point now, job_status& to) const {
  if (marks_.empty())
    return;
  const auto& first = marks_.front();
  to.window_ms = ms_between(first.at, now);
  to.news_ms = ms_between(last_.at, now);
  if (to.window_ms > 0)
    to.steps_per_second = static_cast<double>(last_.next - first.next) * 1000
                          / static_cast<double>(to.window_ms);
}

chief_survey::~chief_survey() {
  for (auto& x : askers)
    x.deliver(caf::make_error(ec::cancelled, std::string{chief_is_gone}));
}

void chief_survey::on(const commit::blame& x) {
  if (x.epoch != epoch || x.step != step)
    return;
  if (!x.reducer)
    owing.erase(x.id);
  if (!askers.empty() && speakers.emplace(x.reducer, x.id).second)
    said.push_back(x);
}

void chief_survey::begin(std::uint64_t of_epoch, std::uint64_t of_step) {
  if (of_epoch != epoch || of_step != step)
    owing.clear();
  epoch = of_epoch;
  step = of_step;
  said.clear();
  speakers.clear();
}

caf::result<job_status> chief_state::status() {
  if (run == 0) {
    auto x = report();
    if (const auto absent = gathering->absent(); !absent.empty())
      x.waiting = roster::listed(absent) + " did not join the run";
    return x;
  }
  if (survey.askers.size() >= most_askers)
    return caf::make_error(ec::busy,
                           std::string{"too many status requests are pending"});
  auto promise = self->make_response_promise<job_status>();
  survey.askers.push_back(promise);
  if (survey.askers.size() > 1)
    return promise; // the running survey answers this request too
  survey.begin(book->epoch(), book->next());
  const commit::probe question{survey.epoch, survey.step};
  for (std::uint32_t r = 0; r < cast.replicas.size(); ++r)
    if (survey.owing.insert(r).second)
      out.send(replica_named(r), cast.replicas[r], subject::probe,
               question.epoch, question.step, question);
  probe_reducers(question);
  self->delayed_send(self, std::min(grace(), longest_survey), atom::status_v,
                     ++survey.number);
  return promise;
}

void chief_state::on_surveyed(std::uint64_t number) {
  if (number != survey.number)
    return;
  auto x = report();
  if (run != 0 && x.step == survey.step && x.epoch == survey.epoch)
    x.waiting = why_not_done();
  for (auto& to : std::exchange(survey.askers, {}))
    to.deliver(x);
}

job_status chief_state::report() const {
  job_status x;
  x.epoch = book->epoch();
  x.step = book->next();
  if (run != 0)
    pace.tell(self->clock().now(), x);
  return x;
}

std::string chief_state::why_not_done() const {
  const auto behind = book->behind();
  std::vector<std::uint32_t> silent;
  for (const auto r : behind)
    if (std::ranges::none_of(survey.said, [r](const commit::blame& x) {
          return !x.reducer && x.id == r;
        }))
      silent.push_back(r);
  auto text = commit::explain(survey.said, behind, silent);
  for (const auto r : behind) {
    if (text.empty() || options.where.several())
      text += (text.empty() ? "" : "; ") + options.where.name_of(r)
              + " has not reported it";
  }
  return text;
}

} // namespace troupe
