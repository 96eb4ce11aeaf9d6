#include "troupe/apps/troupe/base/command.hpp"
#include "troupe/apps/troupe/base/exit_code.hpp"
#include "troupe/apps/troupe/base/option_parsing.hpp"
#include "troupe/apps/troupe/commands/saved_run.hpp"
#include "troupe/models/losses.hpp"
#include "troupe/tensors/ops/softmax_cross_entropy.hpp"
#include "troupe/training/job/data_source.hpp"
#include "troupe/training/job/job.hpp"
#include "troupe/training/model.hpp"
#include "troupe/training/strategies/local_strategies.hpp"
#include "troupe/training/support/atomic_file.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct predict_options {
  std::string model, data = "digits", output;
  std::uint64_t count = 0;
  int threads = 1;
  bool all_classes = false;
};

std::string header(std::size_t classes, bool all_classes) {
  std::string text = "example,prediction,probability";
  for (std::size_t c = 0; all_classes && c < classes; ++c)
    text += ",p" + std::to_string(c);
  return text + "\n";
}

/// Returns the header of a table of numbers: one column for each output of the
/// model.
std::string header_of_values(std::size_t outputs) {
  if (outputs == 1)
    return "example,prediction\n";
  std::string text = "example";
  for (std::size_t i = 0; i < outputs; ++i)
    text += ",prediction_" + std::to_string(i);
  return text + "\n";
}

std::string format_number(float x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", static_cast<double>(x));
  return text;
}

/// @errors throws std::runtime_error about the first output that is NaN or
///         infinite: no class has a probability then.
void check_outputs(const troupe::tensor& outputs, std::uint64_t first) {
  const auto values = outputs.data<float>();
  const auto bad =
    std::ranges::find_if_not(values, [](float x) { return std::isfinite(x); })
    - values.begin();
  if (bad == std::ssize(values))
    return;
  const auto width =
    values.size() / static_cast<std::size_t>(outputs.dims().front());
  const auto row = first + static_cast<std::uint64_t>(bad) / width;
  throw std::runtime_error("the output of the model for example "
                           + std::to_string(row)
                           + " is not finite; check the inputs of this "
                             "example, and whether the training has diverged");
}

void append_rows(std::string& text, const troupe::tensor& scores,
                 std::uint64_t first, bool all_classes) {
  const auto likely = troupe::softmax(scores);
  const auto classes = static_cast<std::size_t>(scores.dims()[1]);
  const auto values = likely.data<float>();
  for (std::int64_t row = 0; row < scores.dims()[0]; ++row) {
    const auto probabilities =
      values.subspan(static_cast<std::size_t>(row) * classes, classes);
    const auto best = std::ranges::max_element(probabilities);
    text += std::to_string(first + static_cast<std::uint64_t>(row)) + ","
            + std::to_string(best - probabilities.begin()) + ","
            + format_number(*best);
    for (std::size_t c = 0; all_classes && c < classes; ++c)
      text += "," + format_number(probabilities[c]);
    text += "\n";
  }
}

void append_values(std::string& text, const troupe::tensor& outputs,
                   std::uint64_t first) {
  const auto rows = static_cast<std::size_t>(outputs.dims().front());
  const auto values = outputs.data<float>();
  const auto width = rows > 0 ? values.size() / rows : 0;
  for (std::size_t row = 0; row < rows; ++row) {
    text += std::to_string(first + row);
    for (const auto x : values.subspan(row * width, width))
      text += "," + format_number(x);
    text += "\n";
  }
}

/// Writes a table to standard output or to a file. The file appears only when
/// the table is complete.
class table {
public:
  explicit table(const std::string& file) {
    if (!file.empty())
      file_.emplace(file);
  }

  void write(const std::string& text) {
    if (file_)
      file_->write(text);
    else if (!(std::cout << text))
      throw std::runtime_error("cannot write to standard output");
  }

  void finish() {
    if (file_)
      file_->commit();
    else if (!std::cout.flush())
      throw std::runtime_error("cannot write to standard output; is the disk "
                               "full?");
  }

private:
  std::optional<troupe::atomic_file> file_;
};

/// Checks that the examples are those of the model.
/// @errors throws std::invalid_argument. For a table with one column too few,
///         the text says how to use its last column as an input.
void check_inputs(const predict_options& options, const troupe::model& model,
                  const troupe::data::dataset& examples) {
  const auto& wanted = model.description().input;
  const auto found = examples.element().dims;
  const auto is_table = options.data.starts_with("csv:");
  if (is_table && found.rank() == 1 && wanted.rank() == 1
      && found[0] + 1 == wanted[0])
    throw std::invalid_argument(
      "the model in \"" + options.model + "\" takes "
      + std::to_string(wanted[0]) + " numbers, but " + options.data + " has "
      + std::to_string(found[0]) + (found[0] == 1 ? " column" : " columns")
      + " besides the label; write csv:FILE: if the table has no label "
        "column");
}

int predict(const predict_options& options) {
  require_distinct("--output", options.output, "--model", options.model);
  if (!options.output.empty())
    troupe::check_writable(options.output);
  const troupe::one_device_strategy strategy{"cpu:0",
                                             {.threads = options.threads}};
  const auto scope = strategy.scope();
  const auto model = troupe::model::load(options.model);
  const bool classifies = troupe::models::find_loss(model.loss()).targets
                          == troupe::models::target_kind::classes;
  if (options.all_classes && !classifies)
    throw std::invalid_argument("--probabilities: the model in \""
                                + options.model + "\" has the loss "
                                + model.loss()
                                + " and gives numbers, not classes; leave the "
                                  "option out");
  auto examples =
    troupe::open_to_predict(options.data, columns_of(model).inputs);
  check_inputs(options, model, examples);
  if (options.count > 0)
    examples = examples.take(options.count);
  table out{options.output};
  std::uint64_t done = 0;
  for (const auto& batch : examples.batch(256).iterate()) {
    troupe::models::model_inputs inputs{batch.inputs};
    if (const auto* found = batch.find("categories");
        found && model.description().categories > 0)
      inputs.categories = *found;
    const auto outputs = model.predict(inputs);
    if (classifies && outputs.dims().rank() != 2)
      throw std::invalid_argument("the model in \"" + options.model
                                  + "\" is no classifier: it gives "
                                  + to_string(outputs.spec()));
    check_outputs(outputs, done);
    const auto width =
      outputs.size() / static_cast<std::size_t>(outputs.dims().front());
    if (done == 0)
      out.write(classifies ? header(width, options.all_classes)
                           : header_of_values(width));
    std::string text;
    if (classifies)
      append_rows(text, outputs, done, options.all_classes);
    else
      append_values(text, outputs, done);
    out.write(text);
    done += static_cast<std::uint64_t>(outputs.dims()[0]);
  }
  out.finish();
  return ok;
}

} // namespace

void add_predict(CLI::App& tool, action& selected) {
  auto& command = *tool.add_subcommand(
    "predict", "Predict classes or numbers with a saved model, as CSV");
  const auto options = std::make_shared<predict_options>();
  command.add_option("--model", options->model, "FILE saved by train")
    ->required();
  command
    .add_option("--data", options->data,
                "digits, digits:N, mnist:FOLDER, clicks or clicks:N (their "
                "test examples), criteo:FILE, csv:FILE, csv:FILE:COLUMN (all "
                "rows; the label is not read), "
                "csv:FILE: (no label column), or idx:FILE (images)")
    ->capture_default_str();
  command
    .add_option_function<std::string>(
      "--count",
      [options](const std::string& text) {
        options->count = parse_integer("--count", text, 0, ~std::uint64_t{0});
      },
      "Maximum number of examples; 0: all [0]")
    ->type_name("N");
  command
    .add_option_function<std::string>(
      "--threads",
      [options](const std::string& text) {
        options->threads = static_cast<int>(parse_integer(
          "--threads", text, 1, troupe::train_option_limits::threads));
      },
      "Number of threads [1]")
    ->type_name("N");
  command.add_flag("--probabilities", options->all_classes,
                   "Write the probability of every class");
  command
    .add_option_function<std::string>(
      "--output",
      [options](const std::string& text) {
        options->output = parse_file_name("--output", text);
      },
      "Write to FILE instead of standard output")
    ->type_name("FILE");
  command.footer(
    "Examples:\n"
    "  troupe predict --model lenet.troupe --data digits --count 10\n"
    "  troupe predict --model lenet.troupe --data idx:images.gz "
    "--probabilities\n"
    "  troupe predict --model line.troupe --data csv:new-houses.csv: \\\n"
    "    --output prices.csv\n"
    "\n"
    "The example in the first column is counted from 0. To compare predictions "
    "with\nlabels, see troupe evaluate --help.\n");
  command.callback([options, &selected] {
    selected = [options] { return predict(*options); };
  });
}
