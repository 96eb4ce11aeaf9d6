#include "troupe/apps/troupe/launcher/local_launcher.hpp"

#include "troupe/net/cluster/launcher_link.hpp"
#include "troupe/net/cluster/tf_config.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

using namespace troupe;

namespace {

constexpr auto evaluator_task = "evaluator";

net::cluster_spec cluster_of(const net::reserved_ports& ports,
                             const local_launcher::job_shape& shape) {
  std::map<std::string, net::cluster_spec::list> jobs;
  for (std::size_t i = 0; i < ports.numbers().size(); ++i)
    jobs[i >= shape.processes    ? "ps"
         : shape.chief && i == 0 ? "chief"
                                 : "worker"]
      .push_back("127.0.0.1:" + std::to_string(ports.numbers()[i]));
  return net::cluster_spec{jobs};
}

} // namespace

local_launcher::local_launcher(const job_shape& shape,
                               child_processes_options options)
  : shape_{shape},
    ports_{shape.processes + shape.servers},
    cluster_{cluster_of(ports_, shape)},
    children_{std::move(options)} {}

void local_launcher::start(
  const std::vector<std::string>& command,
  const std::function<environment_changes(const std::string&)>&
    credentials_of) {
  const auto start_task = [&](const net::cluster_task& task) {
    start(task, command, credentials_of(to_string(task)));
  };
  for (const auto& job : cluster_.jobs())
    for (const auto index : cluster_.task_indices(job))
      start_task({job, index});
  if (shape_.evaluator)
    start_task({evaluator_task, 0});
}

void local_launcher::start(const net::cluster_task& task,
                           const std::vector<std::string>& command,
                           environment_changes variables) {
  process_spec spec{to_string(task), command, std::move(variables),
                    task.type == evaluator_task};
  spec.variables["TF_CONFIG"] = net::write_tf_config(cluster_, task);
  spec.variables[net::launcher_link::joiner_variable] = std::nullopt;
  children_.start(spec);
  started_.emplace(spec.name, std::move(spec));
}

void local_launcher::start_again(const std::string& name) {
  auto spec = started_.at(name);
  // Before the job begins, the process takes its place in the start again.
  spec.joins = children_.has_begun();
  if (spec.joins)
    spec.variables[net::launcher_link::joiner_variable] = "1";
  spec.may_fail = spec.joins || !shape_.begins_together();
  children_.start(spec);
}

std::vector<std::string> local_launcher::names() const {
  std::vector<std::string> out;
  for (const auto& [name, spec] : started_)
    out.push_back(name);
  return out;
}

void local_launcher::wait(
  const signal_receiver& signals, const std::function<void(int)>& on_signal,
  const std::function<std::optional<std::chrono::steady_clock::time_point>()>&
    on_idle) {
  using std::chrono::ceil;
  using std::chrono::milliseconds;
  constexpr milliseconds longest{60'000};
  for (;;) {
    const auto next = on_idle ? on_idle() : std::nullopt;
    if (!children_.running() && !next)
      return;
    const auto wait =
      next ? std::clamp(
        ceil<milliseconds>(*next - std::chrono::steady_clock::now()),
        milliseconds{0}, longest)
           : longest;
    children_.poll_once(wait, signals.descriptor());
    while (const auto signal_number = signals.take())
      on_signal(signal_number);
  }
}
