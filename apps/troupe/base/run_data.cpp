#include "troupe/apps/troupe/base/run_data.hpp"

#include "troupe/models/losses.hpp"
#include "troupe/training/job/data_source.hpp"
#include "troupe/training/support/data_identity.hpp"

#include <cstdint>
#include <utility>

using namespace troupe;

namespace {

constexpr std::uint64_t test_batch = 256;

} // namespace

run_data open_batches(train_config& config) {
  auto opened = open_data(config.data, models::find_loss(config.loss).targets,
                          {config.columns, config.labels});
  config.columns = std::move(opened.columns.inputs);
  config.labels = std::move(opened.columns.labels);
  return {
    opened.train.shuffle(data::whole_dataset, config.seed).batch(config.batch),
    opened.test.batch(test_batch)};
}

std::string describe(const run_data& x) {
  return describe(identify(x.training))
         + describe(identify(x.test), " of the test data");
}

model_options model_options_of(const train_config& config) {
  return {
    .seed = config.seed, .loss = config.loss, .precision = config.precision};
}
