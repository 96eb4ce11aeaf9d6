// Trains as a worker of a job:
//
//   lost_device [WORKER]
//
// In the process with which this worker begins, its device fails in a step in
// the middle. The process leaves the job, and exits with code 4. A process that
// is started in its place joins the job. All that complete the job print the
// hash of the weights.

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <troupe/tensors/base/device_error.hpp>
#include <troupe/troupe.hpp>

using namespace troupe;

int main(int argc, char** arguments) {
  try {
    const auto worker = argc > 1 ? std::stoul(arguments[1]) : ~0ul;
    const auto* const joins = std::getenv("TROUPE_JOIN");
    const bool fails =
      tf_config().task()->id == worker && !(joins && joins == std::string{"1"});
    std::atomic<int> calls = 0;
    models::register_loss(
      {"loss_on_a_device_that_fails", models::target_kind::classes,
       [&](const tensor& outputs, const tensor& labels) {
         if (++calls == 20 && fails)
           throw device_lost{"cuda:0 has failed: an illegal memory access was "
                             "encountered (cudaErrorIllegalAddress)"};
         return models::cross_entropy(outputs, labels);
       }});
    runtime actors;
    const multi_worker_mirrored_strategy strategy{actors, tf_config(), {}};
    const auto scope = strategy.scope();
    model model{models::mlp(), adam{}, {.loss = "loss_on_a_device_that_fails"}};
    model.fit(data::digits({.examples = 280}).shuffle().batch(20),
              {.epochs = 12});
    std::printf("weights %s\n", model.weights_sha256().c_str());
  } catch (const device_lost& e) {
    std::cerr << e.what() << '\n';
    return 4;
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
