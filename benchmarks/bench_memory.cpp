// Measures the peak memory of a training process, or of a device, and computes
// the memory that the model needs.

#include "troupe/benchmarks/options.hpp"
#include "troupe/benchmarks/workload.hpp"
#include "troupe/tensors/base/memory.hpp"
#include "troupe/tensors/device_backend.hpp"

#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace {

using namespace troupe::benchmarks;

constexpr double mib = 1 << 20;

/// Returns the peak resident memory of this process in bytes.
/// @source proc(5), VmHWM.
double peak_bytes() {
  std::ifstream status{"/proc/self/status"};
  for (std::string word; status >> word;)
    if (word == "VmHWM:") {
      double kib = 0;
      status >> kib;
      return 1024 * kib;
    }
  throw std::runtime_error("/proc/self/status names no VmHWM");
}

/// Returns the peak of the memory that tensors used on a device, or the peak
/// resident memory of this process for the CPU.
double peak_bytes_on(const troupe::device& on) {
  if (on.kind == troupe::device_kind::cpu)
    return peak_bytes();
  return static_cast<double>(troupe::backend_of(on).used(on).peak);
}

struct memory_needs {
  double inputs = 0, parameters = 0, slots = 0, gradients = 0, activations = 0;

  double total() const {
    return inputs + parameters + slots + gradients + activations;
  }
};

memory_needs estimate_needs(const training_options& o) {
  const auto& workload = find_workload(o.model);
  const auto replicas = double(o.config.replicas);
  double count = 0;
  for (const auto& parameter : workload.parameters)
    count += double(parameter.dims.elements());
  const auto examples = double(o.batch) * replicas;
  return {
    .inputs = prepared_batches * examples
              * (4.0 * double(workload.example.elements()) + 4.0),
    .parameters = 4 * count,
    .slots = 4 * count * double(workload.rule.slots()),
    .gradients = 4 * count * replicas,
    .activations = examples * double(workload.activation_bytes),
  };
}

void print(const training_options& o, double peak, bool json) {
  const auto need = estimate_needs(o);
  const auto name = o.model + "/b" + std::to_string(o.batch) + "/"
                    + o.config.strategy + "/r"
                    + std::to_string(o.config.replicas)
                    + (o.config.device == "cpu:0" ? "" : "/" + o.config.device);
  if (json)
    std::cout << nlohmann::json{{"case", name},
                                {"peak_mib", peak / mib},
                                {"formula_mib", need.total() / mib},
                                {"beyond_mib", (peak - need.total()) / mib},
                                {"inputs_mib", need.inputs / mib},
                                {"parameters_mib", need.parameters / mib},
                                {"slots_mib", need.slots / mib},
                                {"gradients_mib", need.gradients / mib},
                                {"activations_mib", need.activations / mib},
                                {"pool_mib",
                                 double(troupe::memory::used().peak) / mib}}
              << '\n';
  else
    std::printf(
      "%s: peak %.1f MiB; by formula %.1f (inputs %.1f, parameters "
      "%.1f, slots %.1f, gradients %.1f, activations %.1f); difference "
      "%.1f\n",
      name.c_str(), peak / mib, need.total() / mib, need.inputs / mib,
      need.parameters / mib, need.slots / mib, need.gradients / mib,
      need.activations / mib, (peak - need.total()) / mib);
}

} // namespace

int main(int argc, char** argv) {
  training_options o;
  std::uint64_t steps = 50;
  bool json = false;
  CLI::App app{"Trains for some steps and compares the peak of the memory of "
               "this process, or of the device, with what the model needs: the "
               "prepared inputs, parameters, slots, gradients and "
               "activations."};
  o.add_to(app);
  app.add_option("--steps", steps)
    ->check(CLI::Range(10, 1000000))
    ->capture_default_str();
  app.add_flag("--json", json, "one line of JSON");
  return run_main(app, argc, argv, [&] {
    fit_runner{o.model, o.batch, o.config}.time(1, steps, 5);
    print(o, peak_bytes_on(troupe::parse_device(o.config.device)), json);
  });
}
