#include "troupe/simulation/determinism_check.hpp"

#include "troupe/training/strategies/local_strategies.hpp"

#include <cstring>
#include <sstream>

namespace troupe::simulation {

namespace {

template <class T>
std::string first_difference(const tensor& a, const tensor& b) {
  const auto a_values = a.data<T>(), b_values = b.data<T>();
  for (std::size_t i = 0; i < a_values.size(); ++i)
    if (std::memcmp(&a_values[i], &b_values[i], sizeof(T)) != 0) {
      std::ostringstream out;
      out.precision(17);
      out << "element " << i << ": " << +a_values[i] << " is not "
          << +b_values[i];
      return out.str();
    }
  return "";
}

using run_fn = std::function<tensors(simulator&, const replica_group_options&,
                                     random_fault_injector&)>;

determinism_result compare(const trial_options& trials, const tensors& expected,
                           const run_fn& run) {
  determinism_result result;
  for (auto seed = trials.first_seed;
       result.same && seed < trials.first_seed + trials.seeds; ++seed) {
    simulator sim{seed};
    random_fault_injector injector{trials.plan, seed};
    auto options = trials.group;
    if (options.reducers == replica_group_options::reducer_kind::automatic)
      options.reducers =
        seed % 2 ? replica_group_options::reducer_kind::replica_threads
                 : replica_group_options::reducer_kind::reducer_actors;
    try {
      result.message = difference(run(sim, options, injector), expected);
    } catch (const std::exception& e) {
      result.message = std::string{"the job threw: "} + e.what();
    }
    result.same = result.message.empty();
    if (!result.same)
      result.message = "seed " + std::to_string(seed) + ": " + result.message;
    result.fired += injector.fired;
    result.delivered += sim.delivered;
  }
  return result;
}

tensors run_single(const job_function& training_job,
                   const trial_options& trials, simulator& sim,
                   const replica_group_options& group_options,
                   random_fault_injector& injector) {
  return training_job(
    make_strategy(sim,
                  {.replicas = group_options.replicas,
                   .processes = trials.processes,
                   .threads = group_options.threads,
                   .step_timeout = group_options.step_timeout,
                   .reduce_on = group_options.reducers,
                   .seed = group_options.seed,
                   .step_window = group_options.step_window,
                   .network = trials.network,
                   .replicas_by_process = trials.replicas_by_process},
                  &injector));
}

tensors run_workers(const job_function& training_job,
                    const trial_options& trials, simulator& sim,
                    const replica_group_options& group_options,
                    random_fault_injector& injector) {
  simulated_processes processes{
    sim,
    group_options,
    {trials.processes, trials.network, trials.replicas_by_process},
    &injector};
  std::vector<tensors> results(processes.count());
  const auto errors = processes.run_all([&](std::uint32_t p) {
    results[p] =
      training_job(make_worker_strategy(processes, p, group_options.threads));
  });
  tensors out;
  for (std::uint32_t p = 0; p < processes.count(); ++p) {
    if (errors[p])
      std::rethrow_exception(errors[p]);
    out.insert(out.end(), results[p].begin(), results[p].end());
  }
  return out;
}

} // namespace

std::string difference(const tensors& a, const tensors& b) {
  if (a.size() != b.size())
    return std::to_string(a.size()) + " tensors, expected "
           + std::to_string(b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto position = "tensor " + std::to_string(i) + ", ";
    if (a[i].spec() != b[i].spec())
      return position + to_string(a[i].spec()) + " is not "
             + to_string(b[i].spec());
    const auto text = with_dtype(
      a[i].type(), [&]<class T>(T) { return first_difference<T>(a[i], b[i]); });
    if (!text.empty())
      return position + text;
  }
  return "";
}

determinism_result same_bits(const job_function& training_job,
                             const trial_options& trials) {
  const auto& options = trials.group;
  const one_device_strategy alone{
    "cpu:0", {.replicas = options.replicas, .threads = options.threads}};
  return compare(
    trials, training_job(alone),
    [&](simulator& sim, const replica_group_options& group_options,
        random_fault_injector& injector) {
      return trials.workers
               ? run_workers(training_job, trials, sim, group_options, injector)
               : run_single(training_job, trials, sim, group_options, injector);
    });
}

determinism_result same_bits_of_group(const group_job& training_job,
                                      const trial_options& trials) {
  return compare(
    trials, training_job(*make_sequential_group(trials.group)),
    [&](simulator& sim, const replica_group_options& group_options,
        random_fault_injector& injector) {
      return training_job(*make_replica_group(
        sim, group_options,
        {trials.processes, trials.network, trials.replicas_by_process},
        &injector));
    });
}

tensors values_on_each(const strategy& job_strategy,
                       const std::vector<variable>& variables) {
  const auto copies = job_strategy.run([&] {
    tensors mine;
    for (const auto& v : variables)
      mine.push_back(v.value().clone());
    return mine;
  });
  tensors out;
  for (const auto& mine : job_strategy.local_results(copies))
    out.insert(out.end(), mine.begin(), mine.end());
  return out;
}

} // namespace troupe::simulation
