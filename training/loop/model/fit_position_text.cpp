#include "troupe/training/loop/model/fit_position_text.hpp"

#include "troupe/training/loop/model/model_state.hpp"
#include "troupe/training/strategies/replica/text_codec.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace troupe {

namespace {

/// Names and values of metrics.
struct encoded_metrics {
  std::vector<std::string> names;
  std::vector<double> values;
  auto fields() { return std::tie(names, values); }
};

/// What `fit_position::data` has. Without a first batch it is not known.
struct encoded_data {
  std::uint64_t batches = 0, examples = 0;
  bool has_batches = false, has_examples = false;
  std::string first_batch, last_batch;
  auto fields() {
    return std::tie(batches, examples, has_batches, has_examples, first_batch,
                    last_batch);
  }
};

encoded_data encoded(const std::optional<data_identity>& x) {
  if (!x)
    return {};
  return {x->batches.value_or(0), x->examples.value_or(0),
          x->batches.has_value(), x->examples.has_value(),
          x->first_batch,         x->last_batch};
}

std::optional<data_identity> decoded(const encoded_data& x) {
  if (x.first_batch.empty())
    return std::nullopt;
  data_identity out{{}, {}, x.first_batch, x.last_batch};
  if (x.has_batches)
    out.batches = x.batches;
  if (x.has_examples)
    out.examples = x.examples;
  return out;
}

struct encoded_epoch {
  std::uint64_t epoch = 0, steps = 0, examples = 0;
  /// Loss, accuracy, those of the validation, learning rate and seconds.
  std::vector<double> numbers;
  encoded_metrics metrics, validation_metrics;
  auto fields() {
    return std::tie(epoch, steps, examples, numbers, metrics,
                    validation_metrics);
  }
};

encoded_metrics encoded(const std::vector<metric_value>& all) {
  encoded_metrics out;
  for (const auto& one : all) {
    out.names.push_back(one.name);
    out.values.push_back(one.value);
  }
  return out;
}

encoded_epoch encoded(const epoch_record& x) {
  return {x.epoch,
          x.steps,
          x.examples,
          {x.loss, x.accuracy, x.validation_loss, x.validation_accuracy,
           x.learning_rate, x.seconds},
          encoded(x.metrics),
          encoded(x.validation_metrics)};
}

bool decoded(const encoded_metrics& from, std::vector<metric_value>& out) {
  out.clear();
  if (from.names.size() != from.values.size())
    return false;
  for (std::size_t i = 0; i < from.names.size(); ++i)
    out.push_back({from.names[i], from.values[i]});
  return true;
}

bool decoded(const encoded_epoch& from, epoch_record& out) {
  out.epoch = from.epoch;
  out.steps = from.steps;
  out.examples = from.examples;
  if (from.numbers.size() != 6)
    return false;
  out.loss = from.numbers[0];
  out.accuracy = from.numbers[1];
  out.validation_loss = from.numbers[2];
  out.validation_accuracy = from.numbers[3];
  out.learning_rate = from.numbers[4];
  out.seconds = from.numbers[5];
  return decoded(from.metrics, out.metrics)
         && decoded(from.validation_metrics, out.validation_metrics);
}

} // namespace

std::string to_text(const fit_position& x) {
  std::vector<encoded_epoch> epochs;
  for (const auto& one : x.epochs)
    epochs.push_back(encoded(one));
  return encode_text(x.next_batch.epoch, x.next_batch.index, x.first_epoch,
                     x.totals.examples, x.totals.sums, x.totals.seconds, epochs,
                     x.metrics, x.best_metric, x.best_epoch,
                     x.epochs_without_improvement, x.batches, x.replicas,
                     x.replica_shares, encoded(x.data), x.is_complete);
}

bool from_text(const std::string& text, fit_position& x) {
  std::vector<encoded_epoch> epochs;
  encoded_data data;
  if (!decode_text(text, x.next_batch.epoch, x.next_batch.index, x.first_epoch,
                   x.totals.examples, x.totals.sums, x.totals.seconds, epochs,
                   x.metrics, x.best_metric, x.best_epoch,
                   x.epochs_without_improvement, x.batches, x.replicas,
                   x.replica_shares, data, x.is_complete))
    return false;
  x.data = decoded(data);
  x.epochs.clear();
  for (const auto& one : epochs)
    if (!decoded(one, x.epochs.emplace_back()))
      return false;
  return true;
}

} // namespace troupe
