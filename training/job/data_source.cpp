#include "troupe/training/job/data_source.hpp"

#include "troupe/actors/core/log.hpp"
#include "troupe/data/sources/clicks.hpp"
#include "troupe/data/sources/criteo.hpp"
#include "troupe/data/sources/csv.hpp"
#include "troupe/data/sources/digits.hpp"
#include "troupe/data/sources/idx.hpp"
#include "troupe/models/detail/names.hpp"

#include <array>
#include <charconv>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace troupe {

namespace {

constexpr std::uint64_t default_digits = 14'000, default_clicks = 70'000;
/// Generated examples for each one that is kept for testing.
constexpr std::uint64_t examples_per_test_example = 7;
/// Fraction of the examples of a file that are for training.
constexpr double training_fraction = 0.8;

struct source {
  std::string_view kind, argument;
  bool has_argument = false;
};

source split_name(std::string_view name) {
  const auto colon = name.find(':');
  if (colon == name.npos)
    return {name, {}, false};
  return {name.substr(0, colon), name.substr(colon + 1), true};
}

[[noreturn]] void reject_data(std::string_view name, const std::string& why) {
  throw std::invalid_argument("data \"" + std::string{name} + "\" " + why);
}

void require_argument(std::string_view name, const source& x,
                      const char* placeholder) {
  if (x.argument.empty())
    reject_data(name, "has no " + std::string{placeholder} + "; write "
                        + std::string{x.kind} + ":" + placeholder);
}

/// Returns the number of generated examples.
/// @param count if the name gives none.
std::uint64_t number_of_examples(std::string_view name, const source& parsed,
                                 std::uint64_t count) {
  if (!parsed.has_argument)
    return count;
  std::uint64_t n = 0;
  const auto* last = parsed.argument.data() + parsed.argument.size();
  const auto [end, error] = std::from_chars(parsed.argument.data(), last, n);
  if (error != std::errc{} || end != last || n < examples_per_test_example
      || n > (std::uint64_t{1} << 24))
    reject_data(name, "needs a number of examples from "
                        + std::to_string(examples_per_test_example)
                        + " to 16777216; write " + std::string{parsed.kind}
                        + ":" + std::to_string(count));
  return n;
}

/// Keeps the last ones of n generated examples for testing.
data::dataset::train_test split_generated(const data::dataset& all,
                                          std::uint64_t n) {
  const auto training = n - n / examples_per_test_example;
  return {all.take(training), all.skip(training)};
}

data::dataset::train_test split_file(const data::dataset& all) {
  return all.shuffle(data::whole_dataset, 0, false).split(training_fraction);
}

/// Name of a table's file and of its label column.
struct table_name {
  std::string file;
  std::string label;    ///< Empty: the last column.
  bool labelled = true; ///< False: the table has no label column.
};

table_name split_table_name(std::string_view name, const source& x) {
  require_argument(name, x, "FILE");
  table_name out{std::string{x.argument}, {}};
  // The text after the last colon is a column, unless the whole text names a
  // file.
  if (const auto colon = out.file.rfind(':');
      colon != out.file.npos && !std::filesystem::exists(out.file)) {
    out.label = out.file.substr(colon + 1);
    out.labelled = !out.label.empty();
    out.file.resize(colon);
  }
  return out;
}

/// Opens "mnist:FOLDER" or "mnist:FOLDER:CLASSES".
data::dataset::train_test open_mnist(std::string_view name, const source& x) {
  require_argument(name, x, "FOLDER");
  const std::string whole{x.argument};
  const auto colon = whole.rfind(':');
  if (colon == whole.npos || std::filesystem::exists(whole))
    return data::mnist(whole);
  std::int64_t classes = 0;
  const auto* last = whole.data() + whole.size();
  const auto [end, error] =
    std::from_chars(whole.data() + colon + 1, last, classes);
  if (error != std::errc{} || end != last || classes < 1 || classes > 256)
    reject_data(name, "needs a number of classes from 1 to 256 after the last "
                      "colon; write mnist:FOLDER:27");
  return data::mnist(whole.substr(0, colon), classes);
}

data::csv_options table_options() {
  return {
    .warn = [](const std::string& text) { log(log_level::warning, text); }};
}

data::csv_table open_table(std::string_view name, const source& x,
                           models::target_kind targets,
                           const table_columns& wanted) {
  const auto table = split_table_name(name, x);
  if (!table.labelled)
    reject_data(name, "has no label column to learn; write csv:FILE:COLUMN");
  auto options = table_options();
  const auto labels = wanted.labels.empty() || !table.label.empty()
                        ? std::vector<std::string>{table.label}
                        : wanted.labels;
  if (targets == models::target_kind::classes)
    options.label = labels.front();
  else
    options.targets = labels;
  options.inputs = wanted.inputs;
  return data::read_csv(table.file, options);
}

data::dataset open_table_to_predict(std::string_view name, const source& x,
                                    const std::vector<std::string>& inputs) {
  const auto table = split_table_name(name, x);
  auto options = table_options();
  options.labelled = false;
  options.inputs = inputs;
  // Without a name it is the last column, which can be an input.
  if (table.labelled && (inputs.empty() || !table.label.empty()))
    options.ignored = {table.label};
  return data::csv(table.file, options);
}

data::dataset open_images(std::string_view name, const source& x) {
  require_argument(name, x, "FILE");
  const auto bytes = data::read_idx(std::string{x.argument});
  const auto& dims = bytes.dims();
  if (dims.rank() < 2)
    reject_data(name,
                "holds " + to_string(bytes.spec())
                  + ", which is not a set of images; give a file of images");
  std::vector<std::int64_t> extents(dims.begin(), dims.end());
  if (extents.size() == 3)
    extents.push_back(1); // One gray channel.
  tensor inputs{shape{extents}};
  const auto pixels = bytes.data<std::uint8_t>();
  const auto to = inputs.mutable_data<float>();
  for (std::size_t i = 0; i < to.size(); ++i)
    to[i] = static_cast<float>(pixels[i]) / 255.0f;
  return {inputs, tensor{}};
}

/// @param to_predict images in one file, and tables without labels, can be
///        given too.
[[noreturn]] void reject_unknown(std::string_view name, bool to_predict) {
  const auto kind = std::string{split_name(name).kind};
  std::vector<std::string> kinds{"digits", "mnist", "csv", "clicks", "criteo"};
  if (to_predict)
    kinds.push_back("idx");
  reject_data(name,
              (!to_predict && kind == "idx"
                 ? "has no labels; idx:FILE is only for troupe predict;"
                 : "is unknown;" + models::detail::guess(kind, kinds))
                + std::string{" give digits, digits:N, mnist:FOLDER, "
                              "csv:FILE, csv:FILE:COLUMN, clicks, clicks:N, "
                              "criteo:FILE"}
                + (to_predict ? ", csv:FILE: or idx:FILE" : ""));
}

} // namespace

opened_data open_data(std::string_view name, models::target_kind targets,
                      const table_columns& wanted) {
  const auto without_columns = [](data::dataset::train_test parts) {
    return opened_data{std::move(parts.train), std::move(parts.test), {}};
  };
  const auto parsed = split_name(name);
  if (parsed.kind == "digits") {
    const auto n = number_of_examples(name, parsed, default_digits);
    return without_columns(split_generated(data::digits({.examples = n}), n));
  }
  if (parsed.kind == "clicks") {
    const auto n = number_of_examples(name, parsed, default_clicks);
    return without_columns(split_generated(data::clicks({.examples = n}), n));
  }
  if (parsed.kind == "criteo") {
    require_argument(name, parsed, "FILE");
    return without_columns(
      split_file(data::criteo(std::string{parsed.argument})));
  }
  if (parsed.kind == "mnist")
    return without_columns(open_mnist(name, parsed));
  if (parsed.kind == "csv") {
    auto table = open_table(name, parsed, targets, wanted);
    auto [train, test] = split_file(table.examples);
    return {std::move(train),
            std::move(test),
            {std::move(table.inputs), std::move(table.labels)}};
  }
  reject_unknown(name, false);
}

data::dataset open_split(std::string_view name, data_split split,
                         models::target_kind targets,
                         const table_columns& wanted) {
  if (split != data_split::all) {
    auto both = open_data(name, targets, wanted);
    return split == data_split::training ? both.train : both.test;
  }
  const auto parsed = split_name(name);
  if (parsed.kind == "digits")
    return data::digits(
      {.examples = number_of_examples(name, parsed, default_digits)});
  if (parsed.kind == "clicks")
    return data::clicks(
      {.examples = number_of_examples(name, parsed, default_clicks)});
  if (parsed.kind == "criteo") {
    require_argument(name, parsed, "FILE");
    return data::criteo(std::string{parsed.argument});
  }
  if (parsed.kind == "csv")
    return open_table(name, parsed, targets, wanted).examples;
  if (parsed.kind == "mnist")
    reject_data(name,
                "has two sets of images; give the split training or test");
  reject_unknown(name, false);
}

std::string_view default_loss(std::string_view data) {
  const auto kind = split_name(data).kind;
  return kind == "clicks" || kind == "criteo" ? "binary_cross_entropy"
                                              : "softmax_cross_entropy";
}

data::dataset open_to_predict(std::string_view name,
                              const std::vector<std::string>& inputs) {
  const auto parsed = split_name(name);
  if (parsed.kind == "digits" || parsed.kind == "mnist"
      || parsed.kind == "clicks")
    return open_data(name).test;
  if (parsed.kind == "criteo") {
    require_argument(name, parsed, "FILE");
    return data::criteo(std::string{parsed.argument}, {.labelled = false});
  }
  if (parsed.kind == "csv")
    return open_table_to_predict(name, parsed, inputs);
  if (parsed.kind == "idx")
    return open_images(name, parsed);
  reject_unknown(name, true);
}

} // namespace troupe
