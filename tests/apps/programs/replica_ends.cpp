// Trains as a worker of a job:
//
//   replica_ends [REPLICA]
//
// In the worker with this number the actor of this replica ends in the steps 0,
// 5, 13 and 20, because it cannot report them. At the fourth end its process
// leaves the job by an error, and exits with code 1. The other workers print
// the hash of the weights.

#include <cstdio>
#include <iostream>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <troupe/actors/core/fault_injector.hpp>
#include <troupe/troupe.hpp>

namespace {

using namespace troupe;

class failing_reports final : public fault_injector {
public:
  explicit failing_reports(std::uint32_t replica) : replica_{replica} {}

  injected_fault on_send(const role_id& sender, const role_id&,
                         message_kind kind, std::uint64_t,
                         std::uint64_t step) override {
    const std::lock_guard hold{lock_};
    if (kind == message_kind::step_done && sender == replica_id(replica_)
        && steps_.erase(step) > 0)
      throw std::runtime_error{"the disk is full"};
    return {};
  }

private:
  const std::uint32_t replica_;
  std::mutex lock_;
  std::set<std::uint64_t> steps_{0, 5, 13, 20}; ///< Not reported yet.
};

} // namespace

int main(int argc, char** arguments) {
  try {
    runtime actors;
    multi_worker_options options;
    const auto replica = argc > 1 ? std::stoul(arguments[1]) : ~0ul;
    if (tf_config().task()->id == replica) // not where the replica is adopted
      options.faults =
        std::make_shared<failing_reports>(static_cast<std::uint32_t>(replica));
    const multi_worker_mirrored_strategy strategy{actors, tf_config(), options};
    const auto scope = strategy.scope();
    model model{models::mlp(), adam{}};
    model.fit(data::digits({.examples = 1'400}).shuffle().batch(24),
              {.epochs = 2});
    std::printf("weights %s\n", model.weights_sha256().c_str());
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
