#include "troupe/training/loop/audit/parameter_audit.hpp"

#include "troupe/actors/core/failure_text.hpp"

#include <algorithm>
#include <map>

namespace troupe {

namespace {

// What a replica says of its copy. The values are sent.
enum remark : std::uint32_t {
  counts = 0,
  /// The copy was made from another one since the last audit.
  is_copied = 1,
  /// This process knows that a copy deviates.
  knows_deviation = 2,
};

/// @param group names the processes.
std::string names_of(std::span<const copy_report> reports,
                     const replica_group& group) {
  std::map<std::uint32_t, std::vector<std::uint32_t>> by_process;
  for (const auto& x : reports)
    by_process[x.process].push_back(x.replica);
  std::string out;
  for (const auto& [process, replicas] : by_process)
    out += (out.empty() ? "" : ", ") + replica_list(replicas) + " of "
           + group.process_name(process);
  return out;
}

std::string range_text(std::uint64_t since, std::uint64_t step) {
  if (since >= step)
    return "since step " + std::to_string(step) + " was to begin";
  if (since + 1 == step)
    return "since step " + std::to_string(since);
  return "since one of the steps " + std::to_string(since) + " to "
         + std::to_string(step - 1);
}

std::string sentence(const audit_result& result, const std::string& range,
                     const replica_group& group) {
  if (result.deviating.empty())
    return "a copy of the parameters and the optimizer's state in a process "
           "that was lost has deviated from the others "
           + range;
  if (result.has_majority)
    return "the parameters or the optimizer's state of "
           + names_of(result.deviating, group)
           + " deviate from the majority of the copies " + range;
  return "the copies of the parameters and the optimizer's state differ "
         + range + ", and none is known to be right: "
         + names_of(result.deviating, group);
}

} // namespace

parameter_audit::parameter_audit(const model_state& model,
                                 const fit_options& options)
  : model_{model},
    interval_{options.audit_steps},
    keeps_snapshot_{options.on_deviation == on_deviation::heal} {}

void parameter_audit::begin_epoch(std::uint64_t step) {
  if (snapshot_.step() != step)
    snapshot_.discard();
  last_agreed_ = step;
}

void parameter_audit::begin_run(std::uint64_t first, bool is_new_view,
                                bool is_received) {
  first_ = first;
  is_new_view_ = is_new_view;
  is_received_ = is_received;
}

copy_report parameter_audit::report_of(std::uint32_t index, bool is_new_view,
                                       bool is_received) const {
  copy_report out;
  out.replica = model_.strategy->placement.replicas()[index];
  out.copy = model_.model_parameters.copies() == 1 ? 0 : index;
  out.hash = hash_of_copy(model_, out.copy);
  out.has_vote =
    !is_received && (!is_new_view || !model_.was_replaced(out.copy));
  return out;
}

std::vector<copy_report> parameter_audit::reports(bool is_new_view,
                                                  bool is_received) const {
  std::vector<copy_report> out;
  const auto& strategy = *model_.strategy;
  if (!strategy.is_one_process || model_.model_parameters.copies() > 1)
    for (std::uint32_t i = 0; i < strategy.placement.count(); ++i)
      out.push_back(report_of(i, is_new_view, is_received));
  return out;
}

std::string parameter_audit::deviation() const {
  const std::lock_guard hold{lock_};
  return deviation_;
}

void parameter_audit::clear() {
  const std::lock_guard hold{lock_};
  deviation_.clear();
  deviates_at_ = never;
}

void parameter_audit::write_report(std::uint32_t index, std::uint64_t step,
                                   std::span<double> values) const {
  const bool is_first = step == first_;
  const auto own =
    report_of(index, is_first && is_new_view_, is_first && is_received_);
  values[0] = static_cast<double>(own.hash >> 32);
  values[1] = static_cast<double>(own.hash & 0xffff'ffff);
  values[2] = own.copy;
  values[3] = (own.has_vote ? counts : is_copied)
              | (deviates_at_ != never ? knows_deviation : counts);
}

copy_report parameter_audit::read_report(std::uint32_t replica,
                                         std::span<const double> values) {
  const auto number = [&](std::size_t i) {
    const auto x = values[i]; // comes from another process
    return x >= 0 && x <= double(0xffff'ffff) ? static_cast<std::uint32_t>(x)
                                              : 0u;
  };
  const auto remarks = number(3);
  return {.replica = replica,
          .copy = number(2),
          .hash = std::uint64_t{number(0)} << 32 | number(1),
          .has_vote = (remarks & is_copied) == 0,
          .knows_deviation = (remarks & knows_deviation) != 0};
}

bool parameter_audit::judge(std::uint64_t step, std::uint32_t index,
                            std::span<copy_report> reports) {
  bool is_known = false;
  for (auto& x : reports) {
    x.process = model_.strategy->placement.job.process_of(x.replica);
    is_known |= x.knows_deviation;
  }
  const bool agrees = !is_known && are_equal(reports);
  if (!agrees)
    reject(step, reports);
  else if (index == 0)
    accept(step, reports.front().hash, true);
  return agrees;
}

void parameter_audit::judge_end(std::uint64_t step,
                                std::span<const copy_report> reports,
                                bool has_state) {
  if (reports.empty())
    return;
  if (are_equal(reports))
    accept(step, reports.front().hash, has_state);
  else
    reject(step, reports);
}

void parameter_audit::accept(std::uint64_t step, std::uint64_t hash,
                             bool has_state) {
  last_agreed_ = step;
  const std::lock_guard hold{lock_};
  if (keeps_snapshot_ && has_state)
    snapshot_.take(model_, 0, step, hash);
}

void parameter_audit::reject(std::uint64_t step,
                             std::span<const copy_report> reports) {
  const std::lock_guard hold{lock_};
  // The program may have changed the weights since the last epoch. Then no copy
  // has the state of the snapshot.
  if (step == first_ && !is_new_view_ && snapshot_.step() == step
      && std::ranges::none_of(reports, [&](const copy_report& x) {
           return x.hash == snapshot_.hash();
         }))
    snapshot_.discard();
  if (deviation_.empty())
    deviation_ = sentence(count_votes(reports), range_text(last_agreed_, step),
                          *model_.strategy->group);
  deviates_at_ = std::min<std::uint64_t>(deviates_at_, step);
}

} // namespace troupe
