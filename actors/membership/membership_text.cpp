#include "troupe/actors/membership/membership_text.hpp"

#include "troupe/strategies/names.hpp"

namespace troupe {

namespace {

std::string names_of(const std::vector<std::uint32_t>& tasks,
                     const membership_names& job) {
  std::vector<std::string> out;
  for (const auto task : tasks)
    out.push_back(job.names.at(task));
  return join_words(out);
}

} // namespace

std::string describe(const membership::rejection& why,
                     const membership_names& job) {
  using enum membership::rejection::kind;
  const auto count = std::to_string(job.names.size());
  if (why.cause == unknown_task)
    return "task " + std::to_string(why.task)
           + " does not exist in this job; its number of tasks is " + count;
  const auto& name = job.names.at(why.task);
  const auto differ = [&](const std::string& item) {
    return name + " has " + item + " " + why.actual + ", but " + job.names[0]
           + " " + why.required;
  };
  switch (why.cause) {
    case closed:
      return name + " asked to join after the job had started with all its "
             + count + " processes";
    case taken:
      return name
             + " has joined already and that process is alive; this is a "
               "second process for the same task";
    case version:
      return differ("version");
    case kernels:
      return differ("kernels of level");
    case threads:
      return differ("threads per replica:");
    case options:
      return differ("options");
    case replicas:
      return name + " hosts " + why.actual
             + " replicas, but all processes together may host at most "
             + why.required;
    case unknown_task:
      break;
  }
  return {};
}

std::string describe_missing(const std::vector<std::uint32_t>& tasks,
                             const membership_names& job) {
  std::string addresses;
  for (const auto task : tasks)
    addresses += (addresses.empty() ? "" : ", ") + job.addresses.at(task);
  return names_of(tasks, job) + " did not join (" + addresses + ")";
}

std::string describe(const membership::failure& why,
                     const membership_names& job, const std::string& waited,
                     const std::string& rejected_text) {
  using enum membership::failure::kind;
  const auto& leader = job.names.at(0);
  const auto& self = job.names.at(job.task);
  const auto leader_with_address = leader + " at " + job.addresses.at(0);
  switch (why.cause) {
    case no_replica:
      return "job '" + job.job
             + "' cannot begin: no process hosts a replica; give one at least "
               "1";
    case missing:
      return "job '" + job.job + "' cannot begin: for " + waited + " "
             + describe_missing(why.tasks, job) + rejected_text;
    case not_ready:
      return names_of(why.tasks, job)
             + " did not connect to all other processes in time";
    case lost:
      return names_of(why.tasks, job)
             + " was lost during the start: " + why.reason;
    case aborted:
      return why.reason;
    case rejected:
      return leader + " rejected " + self + ": " + why.reason;
    case unreachable:
      return why.reason.empty()
               ? leader_with_address + " did not answer"
               : self + " could not reach " + leader_with_address + " for "
                   + waited + ": " + why.reason;
    case no_view:
      return leader + " did not send the members of the job in time";
    case other_size:
      return leader + " has a job of " + std::to_string(why.tasks.at(0))
             + " processes, " + self + " expects "
             + std::to_string(job.names.size());
    case bad_view:
      return leader + " sent members of the job that are no membership of "
             + self;
    case no_start:
      return leader + " did not report in time that all are ready";
  }
  return {};
}

} // namespace troupe
