#include "troupe/training/parameter_server/server_batches.hpp"

#include "troupe/tensors/base/exact_numbers.hpp"
#include "troupe/training/strategies/replica/worker_difference.hpp"
#include "troupe/training/support/describe_model.hpp"

#include <stdexcept>
#include <utility>

namespace troupe {

server_batches::server_batches(metric_list list, std::vector<float> weights,
                               std::optional<data::dataset> for_training,
                               std::optional<data::dataset> for_validation)
  : metrics{std::move(list)},
    class_weights{std::move(weights)},
    training{std::move(for_training)},
    validation{std::move(for_validation)},
    cursors_{[](std::uint32_t) { return cursors{}; }} {}

namespace {

/// Describes the values that are read and updated: another model of the same
/// program can have the same network.
std::string description_of_variables(const server_network& network) {
  std::string out;
  for (const auto& one : network.variables())
    out += (one.is_table() ? "table: " : "variable: ") + one.name() + ' '
           + to_string(one.spec()) + '\n';
  return out;
}

std::string description_of(const server_network& network,
                           const server_batches& from) {
  const auto& net = network.net();
  return describe_model(net.description()) + description_of_variables(network)
         + "precision: " + describe_precision(net.precision(), {})
         + "\nloss: " + network.used_loss().name
         + "\nmetrics: " + from.metrics.description() + '\n';
}

std::string rules_of_fit(const server_network& network,
                         const server_batches& from) {
  const auto& rule = network.optimizer().rule();
  auto out = "optimizer: " + std::string{rule.name()}
             + exact_text(rule.numbers())
             + "\nseed: " + std::to_string(network.seed())
             + "\nclass weights:" + (from.class_weights.empty() ? " none" : "");
  for (const auto weight : from.class_weights)
    out += ' ' + exact_text(weight);
  return out + '\n';
}

} // namespace

const data::dataset& server_batches::training_data() const {
  if (!training)
    throw std::invalid_argument("this worker has no training data");
  return *training;
}

const data::dataset& server_batches::validation_data() const {
  if (!validation)
    throw std::invalid_argument("this worker has no validation data");
  return *validation;
}

const data_identity& server_batches::training_identity() const {
  auto& out = training_identity_;
  std::call_once(out.once, [&] { out.value = identify(training_data()); });
  return out.value;
}

const std::string&
server_batches::description_of_fit(const server_network& network) const {
  auto& out = of_fit_;
  std::call_once(out.once, [&] {
    out.value = description_of(network, *this) + rules_of_fit(network, *this)
                + describe(training_identity());
  });
  return out.value;
}

const std::string&
server_batches::description_of_evaluation(const server_network& network) const {
  auto& out = of_evaluation_;
  std::call_once(out.once, [&] {
    out.value =
      description_of(network, *this)
      + describe(identify(validation_data()), " of the validation data");
  });
  return out.value;
}

namespace {

/// Reads one batch. @param at None: it is made.
batch read(const data::dataset& from, std::optional<data::cursor>& at,
           const data::position& which, std::uint64_t batches) {
  if (from.size() != batches)
    throw std::invalid_argument(
      "the coordinator's dataset has " + std::to_string(batches)
      + " batches, that of this worker "
      + (from.size() ? std::to_string(*from.size()) : "no end"));
  if (!at)
    at.emplace(from.prefetch(0).iterate());
  at->restore(which);
  auto found = at->next();
  if (!found)
    throw std::invalid_argument("there is no batch "
                                + std::to_string(which.index));
  return std::move(*found);
}

} // namespace

batch server_batches::read_training(const data::position& which,
                                    std::uint64_t batches) const {
  return read(training_data(), cursors_.local().training, which, batches);
}

batch server_batches::read_validation(std::uint64_t index,
                                      std::uint64_t batches) const {
  return read(validation_data(), cursors_.local().validation, {0, index},
              batches);
}

void check_equal_programs(const std::string& of_coordinator,
                          const std::string& own) {
  const auto text = difference("the coordinator", of_coordinator, own);
  if (!text.empty())
    throw std::invalid_argument(
      "a worker has " + text
      + "; all workers must train the same model on the same data with the "
        "same options as the coordinator's program");
}

} // namespace troupe
