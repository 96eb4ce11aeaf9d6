#include "command.hpp"
#include "option_parsing.hpp"
#include "troupe/tensors/ops/softmax_cross_entropy.hpp"
#include "troupe/training/job/data_source.hpp"
#include "troupe/training/job/job.hpp"
#include "troupe/training/model.hpp"
#include "troupe/training/strategies/local_strategies.hpp"
#include "troupe/training/support/atomic_file.hpp"

#include <algorithm>
#include <cstdio>
#include <iostream>

namespace {

struct given {
  std::string model, data = "digits", output;
  std::uint64_t count = 0;
  int threads = 1;
  bool all = false;
};

std::string header(std::size_t classes, bool all) {
  std::string text = "example,prediction,probability";
  for (std::size_t c = 0; all && c < classes; ++c)
    text += ",p" + std::to_string(c);
  return text + "\n";
}

std::string number(float x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", static_cast<double>(x));
  return text;
}

void append_rows(std::string& text, const troupe::tensor& scores,
                 std::uint64_t first, bool all) {
  const auto likely = troupe::softmax(scores);
  const auto classes = static_cast<std::size_t>(scores.dims()[1]);
  const auto values = likely.data<float>();
  for (std::int64_t row = 0; row < scores.dims()[0]; ++row) {
    const auto of =
      values.subspan(static_cast<std::size_t>(row) * classes, classes);
    const auto best = std::ranges::max_element(of);
    text += std::to_string(first + static_cast<std::uint64_t>(row)) + ","
            + std::to_string(best - of.begin()) + "," + number(*best);
    for (std::size_t c = 0; all && c < classes; ++c)
      text += "," + number(of[c]);
    text += "\n";
  }
}

/// Writes a table to standard output or to a file. The file appears only when
/// it is complete.
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
  std::optional<troupe::safe_file> file_;
};

int predict(const given& x) {
  check_differ("--output", x.output, "--model", x.model);
  if (!x.output.empty())
    troupe::check_writable(x.output);
  const troupe::one_device_strategy strategy{"cpu:0", {.threads = x.threads}};
  const auto scope = strategy.scope();
  const auto model = troupe::model::load(x.model);
  auto examples = troupe::open_to_predict(x.data);
  if (x.count > 0)
    examples = examples.take(x.count);
  table out{x.output};
  std::uint64_t done = 0;
  for (const auto& part : examples.batch(256).iterate()) {
    const auto scores = model.predict(part.inputs);
    if (scores.dims().rank() != 2)
      throw std::invalid_argument("the model in \"" + x.model
                                  + "\" is no classifier: it gives "
                                  + to_string(scores.spec()));
    if (done == 0)
      out.write(header(static_cast<std::size_t>(scores.dims()[1]), x.all));
    std::string text;
    append_rows(text, scores, done, x.all);
    out.write(text);
    done += static_cast<std::uint64_t>(scores.dims()[0]);
  }
  out.finish();
  return ok;
}

} // namespace

void add_predict(CLI::App& tool, action& what) {
  auto& command = *tool.add_subcommand(
    "predict", "Predict the classes of examples with a saved model, as CSV");
  const auto x = std::make_shared<given>();
  command.add_option("--model", x->model, "FILE saved by train")->required();
  command
    .add_option("--data", x->data,
                "digits, digits:N or mnist:FOLDER (their test examples), "
                "csv:FILE, csv:FILE:COLUMN (all rows; the label is ignored), "
                "or idx:FILE (images)")
    ->capture_default_str();
  command
    .add_option_function<std::string>(
      "--count",
      [x](const std::string& text) {
        x->count = whole_number("--count", text, 0, ~std::uint64_t{0});
      },
      "Maximum number of examples; 0: all [0]")
    ->type_name("N");
  command
    .add_option_function<std::string>(
      "--threads",
      [x](const std::string& text) {
        x->threads = static_cast<int>(
          whole_number("--threads", text, 1, troupe::job_limits::threads));
      },
      "Number of threads [1]")
    ->type_name("N");
  command.add_flag("--probabilities", x->all,
                   "Write the probability of every class");
  command
    .add_option_function<std::string>(
      "--output",
      [x](const std::string& text) { x->output = file_name("--output", text); },
      "Write to FILE instead of standard output")
    ->type_name("FILE");
  command.callback([x, &what] { what = [x] { return predict(*x); }; });
}
