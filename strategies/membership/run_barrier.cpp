#include "troupe/strategies/membership/run_barrier.hpp"

#include "troupe/strategies/membership/rendezvous.hpp"

#include <algorithm>
#include <limits>

namespace troupe::muster {

machine::machine(std::vector<std::string> names)
  : names_{std::move(names)},
    joined_(names_.size()),
    asked_(names_.size()),
    stopped_(names_.size()) {}

reaction machine::on(const join& x) {
  if (x.process >= names_.size())
    return {};
  if (x.run <= asked_[x.process])
    return {}; // a repeated request: it was answered or will be
  asked_[x.process] = x.run;
  if (under_way_ > 0 && x.run > decided_) {
    last_ = {x.run, commit::cause::protocol,
             names_[x.process] + " left run " + std::to_string(under_way_)
               + " and requests " + described(x)};
    reaction out{abandon{last_.why}};
    for (auto& one : refuse_one(x))
      out.push_back(std::move(one));
    return out;
  }
  if (lost_ || x.run <= decided_)
    return refuse_one(x);
  for (const auto& other : joined_)
    if (other && other->process != x.process
        && (other->run != x.run || other->first != x.first
            || other->steps != x.steps)) {
      const auto why = names_[other->process] + " requests " + described(*other)
                       + ", but " + names_[x.process] + " requests "
                       + described(x);
      joined_[x.process] = x;
      return refuse_all(commit::cause::protocol, why);
    }
  joined_[x.process] = x;
  now_ = x.run;
  if (!std::ranges::all_of(joined_, [](const auto& j) { return bool(j); }))
    return {};
  decided_ = now_;
  under_way_ = now_;
  joined_.assign(names_.size(), std::nullopt);
  const auto stopped = std::ranges::find(stopped_, now_) != stopped_.end();
  return {begin{x, stopped}};
}

reaction machine::on(const stop& x) {
  if (x.process >= names_.size())
    return {};
  if (under_way_ > 0 && x.run == under_way_)
    return {halt{}};
  if (x.run > decided_)
    stopped_[x.process] = x.run;
  return {};
}

std::string machine::described(const join& x) const {
  const auto most = std::numeric_limits<std::uint64_t>::max();
  const auto end = x.steps > most - x.first ? most : x.first + x.steps;
  return "steps [" + std::to_string(x.first) + ", " + std::to_string(end)
         + ") as its run " + std::to_string(x.run);
}

reaction machine::refuse_one(const join& x) {
  auto what = last_;
  if (lost_)
    what = *lost_;
  else if (x.run != last_.run)
    what = {x.run, commit::cause::protocol,
            "run " + std::to_string(x.run) + " of " + names_[x.process]
              + " has ended for all other processes"};
  decided_ = std::max(decided_, x.run);
  return {refuse{x.process, x.run, what.code, what.why}};
}

reaction machine::refuse_all(commit::cause code, std::string why) {
  reaction out;
  last_ = {now_, code, std::move(why)};
  for (const auto& x : joined_)
    if (x) {
      out.emplace_back(refuse{x->process, x->run, code, last_.why});
      decided_ = std::max(decided_, x->run);
    }
  joined_.assign(names_.size(), std::nullopt);
  return out;
}

std::vector<std::string> machine::absent() const {
  std::vector<std::string> out;
  for (std::size_t p = 0; waiting() && p < joined_.size(); ++p)
    if (!joined_[p])
      out.push_back(names_[p]);
  return out;
}

reaction machine::on_late(const std::string& waited) {
  if (!waiting())
    return {};
  join what;
  for (const auto& one : joined_)
    if (one)
      what = *one;
  return refuse_all(commit::cause::stalled,
                    described(what) + " cannot begin: for " + waited + " "
                      + roster::listed(absent()) + " did not join");
}

reaction machine::on_lost(std::uint32_t process, commit::cause code,
                          const std::string& why) {
  lost_ = {0, code,
           names_.at(process)
             + " is lost, and no run can start without it: " + why};
  return refuse_all(code, lost_->why);
}

std::optional<std::uint64_t> machine::waiting() const {
  for (const auto& x : joined_)
    if (x)
      return x->run;
  return {};
}

} // namespace troupe::muster
