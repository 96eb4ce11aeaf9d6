#include "troupe/strategies/membership/run_barrier.hpp"

#include <algorithm>

namespace troupe::run_barrier {

namespace {

requested_run requested(const join& x) {
  return {x.process, x.run, x.first, step_commit::end_step(x.first, x.steps),
          x.call};
}

bool are_equal(const join& a, const join& b) {
  return a.run == b.run && a.first == b.first && a.steps == b.steps
         && are_same(a.call, b.call);
}

} // namespace

state_machine::state_machine(std::uint32_t processes)
  : joined_(processes), last_run_(processes), stopped_(processes) {}

reaction state_machine::on(const join& request) {
  if (request.process >= joined_.size())
    return {};
  if (request.run <= last_run_[request.process])
    return {}; // a repeated request: the first one was answered or will be
  last_run_[request.process] = request.run;
  if (active_run_ > 0 && request.run > decided_) {
    rejected_run_ = request.run;
    last_rejection_ = {.kind = failure_kind::run_left,
                       .code = ec::protocol,
                       .processes = {request.process},
                       .run = active_run_,
                       .requests = {requested(request)}};
    shorten(last_rejection_);
    reaction out{abort{last_rejection_}};
    for (auto& one : reject_one(request))
      out.push_back(std::move(one));
    return out;
  }
  if (lost_ || request.run <= decided_)
    return reject_one(request);
  for (const auto& other : joined_)
    if (other && other->process != request.process
        && !are_equal(*other, request)) {
      failure_report report{
        .kind = failure_kind::runs_differ,
        .code = ec::protocol,
        .processes = {other->process, request.process},
        .requests = {requested(*other), requested(request)}};
      joined_[request.process] = request;
      // The others may ask for the run when these processes have ended.
      const auto absent = missing();
      auto out = reject_all(std::move(report));
      for (const auto process : absent)
        out.emplace_back(reject{process, rejected_run_, last_rejection_});
      return out;
    }
  joined_[request.process] = request;
  joining_run_ = request.run;
  if (!std::ranges::all_of(joined_, [](const auto& j) { return bool(j); }))
    return {};
  decided_ = joining_run_;
  active_run_ = joining_run_;
  joined_.assign(joined_.size(), std::nullopt);
  const auto stopped =
    std::ranges::find(stopped_, joining_run_) != stopped_.end();
  return {start{request, stopped}};
}

reaction state_machine::on(const stop& request) {
  if (request.process >= joined_.size())
    return {};
  if (active_run_ > 0 && request.run == active_run_)
    return {halt{}};
  if (request.run > decided_)
    stopped_[request.process] = request.run;
  return {};
}

reaction state_machine::reject_one(const join& request) {
  failure_report report{.kind = failure_kind::run_ended,
                        .code = ec::protocol,
                        .processes = {request.process},
                        .run = request.run};
  // Others have heard that the requests differ. They may have ended since.
  if (request.run == rejected_run_
      && (!lost_ || last_rejection_.kind == failure_kind::runs_differ))
    report = last_rejection_;
  else if (lost_)
    report = *lost_;
  decided_ = std::max(decided_, request.run);
  return {reject{request.process, request.run, std::move(report)}};
}

reaction state_machine::reject_all(failure_report report) {
  reaction out;
  rejected_run_ = joining_run_;
  last_rejection_ = std::move(report);
  shorten(last_rejection_);
  for (const auto& x : joined_)
    if (x) {
      out.emplace_back(reject{x->process, x->run, last_rejection_});
      decided_ = std::max(decided_, x->run);
    }
  joined_.assign(joined_.size(), std::nullopt);
  return out;
}

std::vector<std::uint32_t> state_machine::missing() const {
  std::vector<std::uint32_t> out;
  for (std::uint32_t p = 0; waiting() && p < joined_.size(); ++p)
    if (!joined_[p])
      out.push_back(p);
  return out;
}

reaction state_machine::on_timeout(std::uint64_t timeout_ms) {
  if (!waiting())
    return {};
  join request;
  for (const auto& one : joined_)
    if (one)
      request = *one;
  return reject_all({.kind = failure_kind::run_not_joined,
                     .code = ec::stalled,
                     .processes = missing(),
                     .timeout_ms = timeout_ms,
                     .requests = {requested(request)}});
}

reaction state_machine::on_lost(std::uint32_t process, ec code,
                                const std::string& cause) {
  if (!lost_) { // a later loss may follow from the first one
    lost_ = {.kind = failure_kind::process_lost_between_runs,
             .code = code,
             .processes = {process},
             .cause = cause};
    shorten(*lost_);
  }
  return waiting() ? reject_all(*lost_) : reaction{};
}

std::optional<std::uint64_t> state_machine::waiting() const {
  for (const auto& x : joined_)
    if (x)
      return x->run;
  return {};
}

} // namespace troupe::run_barrier
