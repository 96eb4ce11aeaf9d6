#include "troupe/actors/membership/roles/rejection_text.hpp"

namespace troupe {

std::string describe(const membership::rejection& why,
                     const std::vector<std::string>& names) {
  using enum membership::rejection::kind;
  const auto count = std::to_string(names.size());
  if (why.cause == unknown_task)
    return "task " + std::to_string(why.task)
           + " does not exist in this job; its number of tasks is " + count;
  const auto& name = names.at(why.task);
  const auto differ = [&](const std::string& item) {
    return name + " has " + item + " " + why.actual + ", but " + names[0] + " "
           + why.required;
  };
  switch (why.cause) {
    case closed:
      return name
             + " asked to join, but the job begins or has ended with all its "
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
    case job_size:
      return name + " has a job of " + why.actual + " processes, but "
             + names[0] + " of " + why.required;
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

} // namespace troupe
