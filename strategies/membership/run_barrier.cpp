#include "troupe/strategies/membership/run_barrier.hpp"

#include "troupe/strategies/names.hpp"

#include <algorithm>
#include <limits>

namespace troupe::run_barrier {

state_machine::state_machine(std::vector<std::string> names)
  : names_{std::move(names)},
    joined_(names_.size()),
    last_run_(names_.size()),
    stopped_(names_.size()) {}

reaction state_machine::on(const join& request) {
  if (request.process >= names_.size())
    return {};
  if (request.run <= last_run_[request.process])
    return {}; // a repeated request: the first one was answered or will be
  last_run_[request.process] = request.run;
  if (active_run_ > 0 && request.run > decided_) {
    last_rejection_ = {request.run, ec::protocol,
                       names_[request.process] + " left run "
                         + std::to_string(active_run_) + " and requests "
                         + describe(request)};
    reaction out{abort{last_rejection_.reason}};
    for (auto& one : reject_one(request))
      out.push_back(std::move(one));
    return out;
  }
  if (lost_ || request.run <= decided_)
    return reject_one(request);
  for (const auto& other : joined_)
    if (other && other->process != request.process
        && (other->run != request.run || other->first != request.first
            || other->steps != request.steps)) {
      const auto reason =
        names_[other->process] + " requests " + describe(*other) + ", but "
        + names_[request.process] + " requests " + describe(request);
      joined_[request.process] = request;
      return reject_all(ec::protocol, reason);
    }
  joined_[request.process] = request;
  joining_run_ = request.run;
  if (!std::ranges::all_of(joined_, [](const auto& j) { return bool(j); }))
    return {};
  decided_ = joining_run_;
  active_run_ = joining_run_;
  joined_.assign(names_.size(), std::nullopt);
  const auto stopped =
    std::ranges::find(stopped_, joining_run_) != stopped_.end();
  return {start{request, stopped}};
}

reaction state_machine::on(const stop& request) {
  if (request.process >= names_.size())
    return {};
  if (active_run_ > 0 && request.run == active_run_)
    return {halt{}};
  if (request.run > decided_)
    stopped_[request.process] = request.run;
  return {};
}

std::string state_machine::describe(const join& request) const {
  const auto most = std::numeric_limits<std::uint64_t>::max();
  const auto end =
    request.steps > most - request.first ? most : request.first + request.steps;
  return "steps [" + std::to_string(request.first) + ", " + std::to_string(end)
         + ") as its run " + std::to_string(request.run);
}

reaction state_machine::reject_one(const join& request) {
  auto outcome = last_rejection_;
  if (lost_)
    outcome = *lost_;
  else if (request.run != last_rejection_.run)
    outcome = {request.run, ec::protocol,
               "run " + std::to_string(request.run) + " of "
                 + names_[request.process]
                 + " has ended for all other processes"};
  decided_ = std::max(decided_, request.run);
  return {reject{request.process, request.run, outcome.code, outcome.reason}};
}

reaction state_machine::reject_all(ec code, std::string reason) {
  reaction out;
  last_rejection_ = {joining_run_, code, std::move(reason)};
  for (const auto& x : joined_)
    if (x) {
      out.emplace_back(
        reject{x->process, x->run, code, last_rejection_.reason});
      decided_ = std::max(decided_, x->run);
    }
  joined_.assign(names_.size(), std::nullopt);
  return out;
}

std::vector<std::string> state_machine::missing() const {
  std::vector<std::string> out;
  for (std::size_t p = 0; waiting() && p < joined_.size(); ++p)
    if (!joined_[p])
      out.push_back(names_[p]);
  return out;
}

reaction state_machine::on_timeout(const std::string& waited) {
  if (!waiting())
    return {};
  join request;
  for (const auto& one : joined_)
    if (one)
      request = *one;
  return reject_all(ec::stalled, describe(request) + " cannot begin: for "
                                   + waited + " " + join_words(missing())
                                   + " did not join");
}

reaction state_machine::on_lost(std::uint32_t process, ec code,
                                const std::string& reason) {
  lost_ = {0, code,
           names_.at(process)
             + " is lost, and no run can start without it: " + reason};
  return reject_all(code, lost_->reason);
}

std::optional<std::uint64_t> state_machine::waiting() const {
  for (const auto& x : joined_)
    if (x)
      return x->run;
  return {};
}

} // namespace troupe::run_barrier
