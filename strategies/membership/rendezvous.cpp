#include "troupe/strategies/membership/rendezvous.hpp"

#include <algorithm>

namespace troupe::rendezvous {

state_machine::state_machine(std::vector<std::string> names,
                             const join_request& leader)
  : names_{std::move(names)}, config_{leader.config}, tasks_(names_.size()) {
  tasks_.at(0) = member{leader.incarnation, leader.host, leader.port};
}

decision state_machine::on(const join_request& request) {
  if (request.task >= tasks_.size())
    return rejected{"task " + std::to_string(request.task)
                    + " does not exist in this job; its number of tasks is "
                    + std::to_string(tasks_.size())};
  const auto& name = names_[request.task];
  if (closed_)
    return rejected{name
                    + " asked to join after the job had started with all its "
                    + std::to_string(tasks_.size()) + " processes"};
  if (tasks_[request.task])
    return rejected{name
                    + " has joined already and that process is alive; this is "
                      "a second process for the same task"};
  if (auto why = describe_difference(request.config, name); !why.empty())
    return rejected{std::move(why)};
  tasks_[request.task] =
    member{request.incarnation, request.host, request.port};
  return admitted{complete()};
}

std::string state_machine::describe_difference(const process_config& config,
                                               const std::string& name) const {
  const auto differ = [&](const std::string& item, const std::string& actual,
                          const std::string& required) {
    return name + " has " + item + " " + actual + ", but " + names_[0] + " "
           + required;
  };
  const auto number = [](std::uint32_t n) { return std::to_string(n); };
  if (config.version != config_.version)
    return differ("version", config.version, config_.version);
  if (config.kernels != config_.kernels)
    return differ("kernels of level", config.kernels, config_.kernels);
  if (config.threads != config_.threads)
    return differ("threads per replica:", number(config.threads),
                  number(config_.threads));
  if (config.replicas != config_.replicas)
    return differ("replicas per process:", number(config.replicas),
                  number(config_.replicas));
  if (config.options != config_.options)
    return differ("options", config.options, config_.options);
  return {};
}

void state_machine::on_lost(std::uint32_t task, std::uint64_t incarnation) {
  if (task == 0 || task >= tasks_.size() || closed_)
    return;
  if (tasks_[task] && tasks_[task]->incarnation == incarnation)
    tasks_[task].reset();
}

bool state_machine::complete() const {
  return std::ranges::all_of(tasks_, [](const auto& x) { return bool(x); });
}

membership_view state_machine::close() {
  closed_ = true;
  membership_view out{1, {}};
  for (const auto& x : tasks_)
    out.members.push_back(x.value());
  return out;
}

std::string state_machine::missing() const {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < tasks_.size(); ++i)
    if (!tasks_[i])
      out.push_back(names_[i]);
  return join_words(out);
}

std::string join_words(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

} // namespace troupe::rendezvous
