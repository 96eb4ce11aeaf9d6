#include "command.hpp"
#include "option_parsing.hpp"
#include "train.hpp"

namespace {

using troupe::job_limits;

constexpr auto examples =
  "Examples:\n"
  "  troupe train\n"
  "  troupe train --model lenet --data mnist:data/mnist --epochs 5 \\\n"
  "    --strategy mirrored --devices cpu:0,cpu:1 --save lenet.troupe\n"
  "  troupe train --model my.json --data csv:flowers.csv:kind \\\n"
  "    --optimizer sgd:momentum=0.9 --learning-rate 0.05 --schedule cosine\n"
  "  troupe train --workers 4 --transport shm    in four processes\n"
  "  troupe launch -n 2 -- troupe train --strategy multi_worker_mirrored\n"
  "  troupe train --resume lenet.troupe          continue after Ctrl-C\n"
  "\n"
  "Runs with the same number of replicas, batch, seed and threads end with\n"
  "bitwise identical weights, whatever the strategy.\n"
  "\n"
  "On Ctrl-C, the steps that replicas were granted already are completed (at\n"
  "most 8, or 32 with --workers), and the evaluation if an epoch ends with\n"
  "them. Then the run is saved, however long that takes, and the command to\n"
  "continue is printed (exit code 130). A second Ctrl-C ends the program\n"
  "immediately, and so does one before training begins: then nothing is saved\n"
  "(exit code 3).\n";

void set(std::uint64_t& to, std::uint64_t x) {
  to = x;
}

template <class T>
void set(std::optional<T>& to, std::uint64_t x) {
  to = static_cast<T>(x);
}

template <class T>
CLI::Option* add_number(CLI::App& command, const std::string& name, T& to,
                        std::uint64_t least, std::uint64_t most,
                        const std::string& about) {
  return command.add_option_function<std::string>(
    name,
    [&to, name, least, most](const std::string& text) {
      set(to, whole_number(name, text, least, most));
    },
    about);
}

CLI::Option* add_file(CLI::App& command, const std::string& name,
                      std::string& to, const std::string& about) {
  return command.add_option_function<std::string>(
    name, [&to, name](const std::string& text) { to = file_name(name, text); },
    about);
}

void add_what(CLI::App& command, troupe::job& job) {
  command
    .add_option("--model", job.model,
                "A built-in model (mlp, lenet), or FILE.json with a "
                "description [mlp]")
    ->type_name("NAME");
  command
    .add_option("--data", job.data,
                "digits, digits:N (generated, no download), mnist:FOLDER, "
                "csv:FILE or csv:FILE:COLUMN [digits]")
    ->type_name("NAME");
  add_number(command, "--epochs", job.epochs, 1, job_limits::epochs,
             "Number of passes over the data [5]")
    ->type_name("N");
  add_number(command, "--batch", job.batch, 1, job_limits::batch,
             "Examples in a step, over all replicas [64]")
    ->type_name("N");
  command
    .add_option("--optimizer", job.optimizer,
                "sgd, adam or adamw, with settings as in "
                "sgd:momentum=0.9,nesterov=1 [adam]")
    ->type_name("NAME");
  command
    .add_option_function<std::string>(
      "--learning-rate",
      [&job](const std::string& text) {
        job.learning_rate = real_number("--learning-rate", text);
      },
      "Learning rate [adam 0.001, sgd 0.01]")
    ->type_name("RATE");
  command.add_option(
    "--schedule", job.schedule,
    "Schedule of the learning rate: constant, step:every=1000,factor=0.1 "
    "or cosine:warm_up=100 [constant]");
  add_number(command, "--patience", job.patience, 1, job_limits::patience,
             "Stop after N epochs without a lower test loss, and restore "
             "the best weights [never]");
  command
    .add_option("--on-nan", job.on_nan,
                "What to do when a loss is NaN: stop, or skip the step "
                "[stop]")
    ->type_name("WHAT");
  add_number(command, "--seed", job.seed, 0, ~std::uint64_t{0},
             "Seed of the initial weights and the order of examples [1]")
    ->type_name("N");
}

void add_where(CLI::App& command, troupe::job& job) {
  command
    .add_option("--strategy", job.strategy,
                "default, one_device (all replicas on one device), mirrored "
                "(one replica per device) or multi_worker_mirrored (several "
                "processes) [chosen by the options below]")
    ->type_name("NAME");
  command
    .add_option_function<std::string>(
      "--devices",
      [&job](const std::string& text) {
        job.devices = names("--devices", text, "cpu:0,cpu:1");
      },
      "Devices of each worker, as in cpu:0,cpu:1 [cpu:0]")
    ->type_name("LIST");
  add_number(command, "--replicas", job.replicas, 1, job_limits::replicas,
             "Number of replicas: with one_device [1]; with workers, the "
             "total [one per worker]")
    ->type_name("N");
  add_number(command, "--workers", job.workers, 1, job_limits::workers,
             "Number of processes on this machine; with TF_CONFIG, the "
             "number of its workers")
    ->type_name("N");
  command
    .add_option("--transport", job.transport,
                "Transport of tensors between workers: auto, shm, tcp or tls "
                "[auto]")
    ->type_name("NAME");
  add_number(command, "--threads", job.threads, 1, job_limits::threads,
             "Number of threads of each replica [1]")
    ->type_name("N");
}

void add_files(CLI::App& command, train_arguments& x) {
  add_file(command, "--save", x.save, "Write the trained model to FILE")
    ->type_name("FILE");
  add_file(command, "--summary", x.summary,
           "Write the results of the run to FILE, as JSON")
    ->type_name("FILE");
  add_file(command, "--resume", x.resume,
           "Continue the interrupted run in FILE; options not given "
           "are taken from FILE")
    ->type_name("FILE");
  add_number(command, "--max-steps", x.max_steps, 1, job_limits::epochs,
             "Interrupt the run after N steps")
    ->type_name("N");
  command.add_flag("--quiet", x.quiet, "Print only errors");
}

} // namespace

void add_train(CLI::App& tool, action& what) {
  auto& command = *tool.add_subcommand("train", "Train a model");
  const auto x = std::make_shared<train_arguments>();
  add_what(command, x->job);
  add_where(command, x->job);
  add_files(command, *x);
  command.footer(examples);
  command.callback([x, &what] { what = [x] { return train(*x); }; });
}
