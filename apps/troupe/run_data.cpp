#include "run_data.hpp"

#include "troupe/models/losses.hpp"
#include "troupe/training/job/data_source.hpp"

#include <cstdint>

using namespace troupe;

namespace {

constexpr std::uint64_t test_batch = 256;

} // namespace

run_data open_batches(const train_config& config) {
  const auto [examples, test_examples] =
    open_data(config.data, models::find_loss(config.loss).targets);
  return {
    examples.shuffle(data::whole_dataset, config.seed).batch(config.batch),
    test_examples.batch(test_batch)};
}

model_options model_options_of(const train_config& config) {
  return {
    .seed = config.seed, .loss = config.loss, .precision = config.precision};
}
