#include "troupe/strategies/membership/rendezvous.hpp"

#include <algorithm>

namespace troupe::roster {

machine::machine(std::vector<std::string> names, const hello& leader)
  : names_{std::move(names)}, on_{leader.on}, tasks_(names_.size()) {
  tasks_.at(0) = member{leader.incarnation, leader.host, leader.port};
}

answer machine::on(const hello& x) {
  if (x.task >= tasks_.size())
    return refused{"task " + std::to_string(x.task)
                   + " does not exist in this job; its number of tasks is "
                   + std::to_string(tasks_.size())};
  const auto& who = names_[x.task];
  if (told_)
    return refused{who
                   + " asked to join after the job had started with all its "
                   + std::to_string(tasks_.size()) + " processes"};
  if (tasks_[x.task])
    return refused{who
                   + " has joined already and that process is alive; this is "
                     "a second process for the same task"};
  if (auto why = unlike(x.on, who); !why.empty())
    return refused{std::move(why)};
  tasks_[x.task] = member{x.incarnation, x.host, x.port};
  return taken{complete()};
}

std::string machine::unlike(const terms& x, const std::string& who) const {
  const auto differ = [&](const std::string& what, const std::string& his,
                          const std::string& mine) {
    return who + " has " + what + " " + his + ", but " + names_[0] + " " + mine;
  };
  const auto number = [](std::uint32_t n) { return std::to_string(n); };
  if (x.version != on_.version)
    return differ("version", x.version, on_.version);
  if (x.kernels != on_.kernels)
    return differ("kernels of level", x.kernels, on_.kernels);
  if (x.threads != on_.threads)
    return differ("threads per replica:", number(x.threads),
                  number(on_.threads));
  if (x.replicas != on_.replicas)
    return differ("replicas per process:", number(x.replicas),
                  number(on_.replicas));
  if (x.options != on_.options)
    return differ("options", x.options, on_.options);
  return {};
}

void machine::on_lost(std::uint32_t task, std::uint64_t incarnation) {
  if (task == 0 || task >= tasks_.size() || told_)
    return;
  if (tasks_[task] && tasks_[task]->incarnation == incarnation)
    tasks_[task].reset();
}

bool machine::complete() const {
  return std::ranges::all_of(tasks_, [](const auto& x) { return bool(x); });
}

table machine::members() {
  told_ = true;
  table out{1, {}};
  for (const auto& x : tasks_)
    out.members.push_back(x.value());
  return out;
}

std::string machine::missing() const {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < tasks_.size(); ++i)
    if (!tasks_[i])
      out.push_back(names_[i]);
  return listed(out);
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " and " : ", ") + names[i];
  return text;
}

} // namespace troupe::roster
