#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/apps/troupe/base/command.hpp"
#include "troupe/apps/troupe/base/exit_code.hpp"
#include "troupe/apps/troupe/base/metric_text.hpp"
#include "troupe/apps/troupe/base/option_parsing.hpp"
#include "troupe/apps/troupe/commands/saved_run.hpp"
#include "troupe/models/losses.hpp"
#include "troupe/training/job/data_source.hpp"
#include "troupe/training/job/job.hpp"
#include "troupe/training/job/job_json.hpp"
#include "troupe/training/job/job_metrics.hpp"
#include "troupe/training/model.hpp"
#include "troupe/training/strategies/local_strategies.hpp"
#include "troupe/training/support/atomic_file.hpp"

#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

namespace {

using namespace troupe;

struct evaluate_arguments {
  std::string model, data, split = "test", output;
  std::vector<std::string> metrics, devices{"cpu:0"};
  std::uint64_t batch = 256;
  int threads = 1;
  bool json = false;
};

constexpr auto evaluate_examples =
  "Examples:\n"
  "  troupe evaluate --model lenet.troupe\n"
  "  troupe evaluate --model line.troupe --data csv:new-houses.csv:price \\\n"
  "    --split all --metrics mean_absolute_error,root_mean_squared_error\n"
  "  troupe evaluate --model lenet.troupe --data mnist:data/mnist \\\n"
  "    --devices cpu:0,cpu:1 --json\n"
  "\n"
  "The test examples are those on which troupe train --data NAME does not "
  "train: a\nseventh of generated examples (digits:500 trains on 429 and "
  "tests on 71), a fifth\nof the rows of a file, the test set of MNIST.\n";

/// Returns the data of the run that has saved a model.
std::string data_of(const model& saved, const std::string& file) {
  try {
    if (const auto found = read_train_options(saved.note()).data)
      return *found;
  } catch (const std::runtime_error&) { // a program has saved it
  }
  throw std::invalid_argument("--data: \"" + file
                              + "\" does not say on what the model was "
                                "trained; name the data");
}

data_split split_of(const std::string& name) {
  return name == "training" ? data_split::training
         : name == "test"   ? data_split::test
                            : data_split::all;
}

strategy make_strategy(const evaluate_arguments& arguments,
                       std::optional<runtime>& actors) {
  // Checks the devices as those of a training.
  train_options options;
  options.devices = arguments.devices;
  resolve_options(options);
  if (arguments.devices.size() == 1)
    return one_device_strategy{arguments.devices.front(),
                               {.threads = arguments.threads}};
  return mirrored_strategy{
    actors.emplace(), arguments.devices, {.threads = arguments.threads}};
}

std::string json_text(const evaluate_arguments& arguments,
                      const std::string& data, const model& saved,
                      const evaluation& found) {
  const auto number = [](double x) {
    return std::isfinite(x) ? nlohmann::ordered_json(x)
                            : nlohmann::ordered_json();
  };
  nlohmann::ordered_json object{{"model", arguments.model},
                                {"data", data},
                                {"split", arguments.split},
                                {"steps", saved.steps()},
                                {"examples", found.examples},
                                {"loss", found.loss},
                                {"metrics", nlohmann::ordered_json::object()}};
  for (const auto& one : found.metrics)
    object["metrics"][one.name] = number(one.value);
  return object.dump(2, ' ', false,
                     nlohmann::ordered_json::error_handler_t::replace)
         + "\n";
}

/// @errors throws std::runtime_error if the loss is NaN or infinite: so is an
///         output, and the metrics count it as they can.
void check_loss(const evaluation& found, const std::string& data) {
  if (!std::isfinite(found.loss))
    throw std::runtime_error(
      "the loss of the model on " + data
      + " is not finite; check the inputs of these examples, and whether the "
        "training has diverged (troupe predict names the first example whose "
        "output is not finite)");
}

int evaluate(const evaluate_arguments& arguments) {
  require_distinct("--output", arguments.output, "--model", arguments.model);
  if (!arguments.output.empty())
    check_writable(arguments.output);
  std::optional<runtime> actors;
  const auto strategy = make_strategy(arguments, actors);
  const auto scope = strategy.scope();
  auto saved = model::load(arguments.model);
  const auto data =
    arguments.data.empty() ? data_of(saved, arguments.model) : arguments.data;
  evaluate_options options;
  if (!arguments.metrics.empty()) {
    options.metrics = metrics_named(arguments.metrics, saved.loss());
  } else {
    train_config config;
    config.loss = saved.loss();
    config.data = data;
    options.metrics = metrics_of(config);
  }
  const auto rows =
    open_split(data, split_of(arguments.split),
               models::find_loss(saved.loss()).targets, columns_of(saved));
  const auto found = saved.evaluate(rows.batch(arguments.batch), options);
  check_loss(found, data);
  const auto text = arguments.json
                      ? json_text(arguments, data, saved, found)
                      : std::to_string(found.examples) + " examples  "
                          + text_of_evaluation(found) + "\n";
  if (arguments.output.empty()) {
    std::cout << text;
    return ok;
  }
  atomic_file file{arguments.output};
  file.write(text);
  file.commit();
  return ok;
}

} // namespace

void add_evaluate(CLI::App& tool, action& selected) {
  auto& command = *tool.add_subcommand(
    "evaluate", "Compute the loss and the metrics of a saved model");
  const auto arguments = std::make_shared<evaluate_arguments>();
  command.add_option("--model", arguments->model, "FILE saved by train")
    ->required();
  command
    .add_option("--data", arguments->data,
                "digits, digits:N, mnist:FOLDER, csv:FILE, csv:FILE:COLUMN, "
                "clicks, clicks:N or criteo:FILE [the data on which the model "
                "was trained]")
    ->type_name("NAME");
  command
    .add_option("--split", arguments->split,
                "Which of its examples: test (on which train does not train), "
                "training, or all")
    ->check(CLI::IsMember({"test", "training", "all"}))
    ->type_name("NAME")
    ->capture_default_str();
  command
    .add_option_function<std::string>(
      "--metrics",
      [arguments](const std::string& text) {
        arguments->metrics = parse_list("--metrics", text, "accuracy,auc");
      },
      "Metrics besides the loss: accuracy, auc, mean_absolute_error, "
      "root_mean_squared_error [those of the training]")
    ->type_name("LIST");
  command
    .add_option_function<std::string>(
      "--devices",
      [arguments](const std::string& text) {
        arguments->devices = parse_list("--devices", text, "cpu:0,cpu:1");
      },
      "Devices that share the examples, as in cpu:0,cpu:1 [cpu:0]; see troupe "
      "devices")
    ->type_name("LIST");
  command
    .add_option_function<std::string>(
      "--batch",
      [arguments](const std::string& text) {
        arguments->batch =
          parse_integer("--batch", text, 1, train_option_limits::batch);
      },
      "Examples computed at once, over all devices [256]")
    ->type_name("N");
  command
    .add_option_function<std::string>(
      "--threads",
      [arguments](const std::string& text) {
        arguments->threads = static_cast<int>(
          parse_integer("--threads", text, 1, train_option_limits::threads));
      },
      "Number of threads of each device [1]")
    ->type_name("N");
  command.add_flag("--json", arguments->json, "Write the results as JSON");
  command
    .add_option_function<std::string>(
      "--output",
      [arguments](const std::string& text) {
        arguments->output = parse_file_name("--output", text);
      },
      "Write to FILE instead of standard output")
    ->type_name("FILE");
  command.footer(evaluate_examples);
  command.callback([arguments, &selected] {
    selected = [arguments] { return evaluate(*arguments); };
  });
}
