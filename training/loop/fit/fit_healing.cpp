// This file implements the audits of `fit`: the comparison at the end of a run,
// and the return to the last snapshot.

#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/core/log.hpp"
#include "troupe/net/base/text.hpp"
#include "troupe/training/loop/fit/fit_loop.hpp"
#include "troupe/training/strategies/calls/host_collectives.hpp"
#include "troupe/training/strategies/replica/text_codec.hpp"

#include <algorithm>
#include <stdexcept>

namespace troupe {

namespace {

/// How often the steps after one snapshot are made again.
constexpr int max_heals = 3;

[[noreturn]] void throw_malformed() {
  throw job_error(ec::protocol, "a worker sent a malformed audit");
}

} // namespace

std::string fit_loop::audit_text() const {
  std::vector<std::uint32_t> replicas, copies;
  std::vector<std::uint64_t> hashes;
  std::vector<std::uint8_t> votes;
  if (!model_.strategy->lacks_state)
    for (const auto& x : audit_->reports(step_view_ != model_.strategy->views,
                                         has_received_state_)) {
      replicas.push_back(x.replica);
      copies.push_back(x.copy);
      hashes.push_back(x.hash);
      votes.push_back(x.has_vote);
    }
  return encode_text(replicas, copies, hashes, votes);
}

void fit_loop::judge_end(const std::vector<std::string>& texts) {
  std::vector<copy_report> all;
  for (std::uint32_t p = 0; p < texts.size(); ++p) {
    std::vector<std::uint32_t> replicas, copies;
    std::vector<std::uint64_t> hashes;
    std::vector<std::uint8_t> votes;
    if (!decode_text(texts[p], replicas, copies, hashes, votes)
        || copies.size() != replicas.size() || hashes.size() != replicas.size()
        || votes.size() != replicas.size())
      throw_malformed();
    for (std::size_t i = 0; i < replicas.size(); ++i)
      all.push_back({replicas[i], p, copies[i], hashes[i], votes[i] != 0});
  }
  audit_->judge_end(model_.steps, all, !model_.strategy->lacks_state);
  deviation_ = audit_->deviation();
}

std::vector<fit_loop::worker_outcome>
fit_loop::gather_outcomes(const std::string& end, workers_end of) {
  const bool audits =
    of == workers_end::run && deviation_.empty() && audit_ != nullptr;
  std::vector<std::string> texts;
  job_call call;
  call.name = of == workers_end::run ? "fit (the end of its steps)"
                                     : "fit (the end of an epoch)";
  if (end.starts_with('!'))
    call.failure = end.substr(1);
  // A process that joins gets the state in this call, so its copies are read
  // when the call is made.
  call.run = [&] {
    texts = gather_text_once(model_.strategy,
                             encode_text(model_.strategy->own_name(),
                                         is_callback_chief_, end,
                                         audits ? audit_text() : std::string{}),
                             model_.strategy->callback_timeout);
    return encode_text(texts);
  };
  call.complete = [&](const std::string& result) {
    if (!decode_text(result, texts))
      throw_malformed();
  };
  make_call(model_.strategy, call);
  std::vector<worker_outcome> outcomes(texts.size());
  std::vector<std::string> copies(texts.size());
  for (std::size_t w = 0; w < texts.size(); ++w) {
    auto& one = outcomes[w];
    if (!decode_text(texts[w], one.worker, one.is_chief, one.end, copies[w]))
      throw_malformed();
    one.worker = net::printable(one.worker);
  }
  if (audits)
    judge_end(copies);
  return outcomes;
}

void fit_loop::mark_position() {
  if (!audit_ || options_.on_deviation != on_deviation::heal
      || !audit_->is_due(model_.steps))
    return;
  auto mark = std::ranges::find(marks_, model_.steps, &snapshot_mark::steps);
  if (mark == marks_.end()) // the marks before the snapshot are not needed
    mark = std::ranges::find_if(marks_, [&](const snapshot_mark& x) {
      return x.steps < audit_->last_agreed();
    });
  if (mark == marks_.end())
    mark = marks_.emplace(marks_.end());
  mark->steps = model_.steps;
  mark->totals = position_.totals;
}

bool fit_loop::heal() {
  if (deviation_.empty() || end_ == fit_end::left)
    return false;
  if (options_.on_deviation == on_deviation::stop)
    throw std::runtime_error(
      deviation_
      + "; all steps since then are suspect (load the last saved file, or fit "
        "with on_deviation heal, in the tool --on-deviation heal)");
  std::string position;
  job_call call;
  call.name = "fit (the return to a snapshot)";
  call.run = [&] { return position = restore_snapshot(); };
  call.complete = [&](const std::string& result) { position = result; };
  make_call(model_.strategy, call);
  go_back(position);
  heals_ = model_.steps == healed_step_ ? heals_ + 1 : 1;
  healed_step_ = model_.steps;
  if (heals_ > max_heals)
    throw std::runtime_error(
      deviation_ + "; the steps from " + std::to_string(healed_step_)
      + " on were made again " + std::to_string(max_heals)
      + " times in vain; replace that machine");
  if (model_.strategy->placement.process == 0)
    log(log_level::warning, deviation_ + "; all processes return to step "
                              + std::to_string(model_.steps));
  audit_->clear();
  deviation_.clear();
  bad_step_.reset();
  end_ = fit_end::done;
  step_ = std::make_shared<train_step>(shared_model_, options_, audit_);
  return true;
}

/// A process that is behind in a view change can miss the last snapshot, and a
/// process that has joined has none. They take it from another process.
std::string fit_loop::restore_snapshot() {
  const auto mark = restore_newest_snapshot(model_, audit_->snapshot(), marks_);
  if (!mark)
    throw std::runtime_error(deviation_
                             + "; no process has an intact copy of the state "
                               "before that, so load the last saved file");
  return encode_mark(*mark);
}

void fit_loop::go_back(const std::string& position) {
  auto to = decode_mark(position);
  if (!to || to->steps > model_.steps
      || model_.steps - to->steps > position_.next_batch.index
      || (!to->totals.sums.empty()
          && to->totals.sums.size() != step_->metrics().sum_count()))
    throw_malformed();
  const auto steps = model_.steps - to->steps;
  position_.next_batch.index -= steps;
  steps_done_ -= std::min(steps, steps_done_);
  to->totals.seconds = position_.totals.seconds; // the time has passed
  position_.totals = std::move(to->totals);
  last_total_ = {};
  model_.steps = updated_ = to->steps;
  begin_progress();
}

} // namespace troupe
