#include "troupe/apps/troupe/base/command.hpp"
#include "troupe/apps/troupe/base/option_parsing.hpp"
#include "troupe/apps/troupe/commands/train.hpp"
#include "troupe/data/pipeline/row_range.hpp"

namespace {

using troupe::train_option_limits;

constexpr auto train_examples =
  "Examples:\n"
  "  troupe train\n"
  "  troupe train --model lenet --data mnist:data/mnist --epochs 5 \\\n"
  "    --strategy mirrored --devices cpu:0,cpu:1 --save lenet.troupe\n"
  "  troupe train --model my.json --data csv:flowers.csv:kind \\\n"
  "    --optimizer sgd:momentum=0.9 --learning-rate 0.05 --schedule cosine\n"
  "  troupe train --model line.json --data csv:houses.csv:price \\\n"
  "    --loss mean_squared_error\n"
  "  troupe train --model wide_deep --data clicks --batch 512\n"
  "  troupe train --workers 4 --transport shm    in four processes\n"
  "  troupe train --workers 2 --servers 2 --consistency ssp:2\n"
  "  troupe launch -n 2 -- troupe train --strategy multi_worker_mirrored\n"
  "  troupe train --resume lenet.troupe          continue after Ctrl-C\n"
  "  troupe train --resume lenet.troupe --epochs 9    train on after the end\n"
  "  troupe train --init lenet.troupe --data csv:my.csv --epochs 3\n"
  "\n"
  "Runs with the same number of replicas, batch, seed and threads end with\n"
  "bitwise identical weights, whatever the strategy (with parameter servers, "
  "if\n"
  "the consistency is sync, or ssp with one replica, and --table-consistency "
  "is\n"
  "not given).\n"
  "\n"
  "On Ctrl-C, the steps that replicas were granted already are completed (at\n"
  "most 8, or 32 with --workers; with parameter servers those of about a\n"
  "quarter of a second), and the evaluation if an epoch ends with them. Then\n"
  "the run is saved, however long that takes, and the command to continue is\n"
  "printed (exit code 130). A second Ctrl-C ends the program immediately, and\n"
  "so does one before training begins: then nothing is saved (exit code 3).\n";

/// Begins a group of options in the help.
void begin_group(CLI::App& command, const char* title) {
  command.option_defaults()->group(title);
}

constexpr auto of_model = "Model and data", of_training = "Training",
               of_placement = "Devices and processes",
               of_servers = "Parameter servers", of_files = "Files and output",
               of_faults = "Faults";

void set(std::uint64_t& target, std::uint64_t value) {
  target = value;
}

template <class T>
void set(std::optional<T>& target, std::uint64_t value) {
  target = static_cast<T>(value);
}

template <class T>
CLI::Option* add_number(CLI::App& command, const std::string& name, T& target,
                        std::uint64_t min, std::uint64_t max,
                        const std::string& about) {
  return command.add_option_function<std::string>(
    name,
    [&target, name, min, max](const std::string& text) {
      set(target, parse_integer(name, text, min, max));
    },
    about);
}

CLI::Option* add_file(CLI::App& command, const std::string& name,
                      std::string& target, const std::string& about) {
  return command.add_option_function<std::string>(
    name,
    [&target, name](const std::string& text) {
      target = parse_file_name(name, text);
    },
    about);
}

void add_training_options(CLI::App& command, troupe::train_options& options) {
  begin_group(command, of_model);
  command
    .add_option("--model", options.model,
                "A built-in model (lenet, mlp, wide_deep), or FILE.json with a "
                "description [mlp]")
    ->type_name("NAME");
  command
    .add_option("--data", options.data,
                "digits, digits:N (generated, no download), mnist:FOLDER, "
                "csv:FILE, csv:FILE:COLUMN, clicks, clicks:N (generated) or "
                "criteo:FILE [digits]")
    ->type_name("NAME");
  command
    .add_option("--loss", options.loss,
                "softmax_cross_entropy for class numbers, "
                "mean_squared_error or mean_absolute_error for the numbers of "
                "a CSV column, binary_cross_entropy for a column of 0 and 1 "
                "[binary_cross_entropy for clicks and criteo, others "
                "softmax_cross_entropy]")
    ->type_name("NAME");
  command
    .add_option("--precision", options.precision,
                "float32, bf16: layers compute in bfloat16, with float32 "
                "parameters and updates, or tf32: products on GPUs round to "
                "TF32 [float32]")
    ->type_name("NAME");
  begin_group(command, of_training);
  add_number(command, "--epochs", options.epochs, 1,
             train_option_limits::epochs, "Number of passes over the data [5]")
    ->type_name("N");
  add_number(command, "--batch", options.batch, 1, train_option_limits::batch,
             "Examples in a step, over all replicas [64]")
    ->type_name("N");
  command
    .add_option("--optimizer", options.optimizer,
                "sgd, adam, adamw, adagrad or ftrl, with settings as in "
                "sgd:momentum=0.9,nesterov=1 [adam]")
    ->type_name("NAME");
  command
    .add_option_function<std::string>(
      "--learning-rate",
      [&options](const std::string& text) {
        options.learning_rate = parse_real("--learning-rate", text);
      },
      "Learning rate [sgd 0.01, others 0.001]")
    ->type_name("RATE");
  command
    .add_option(
      "--schedule", options.schedule,
      "Schedule of the learning rate: constant, step:every=1000,factor=0.1 "
      "or cosine:warm_up=100 [constant]")
    ->type_name("NAME");
  add_number(
    command, "--patience", options.patience, 1, train_option_limits::patience,
    "Stop after N epochs in which the monitored value did not improve, "
    "and restore the best weights [never]")
    ->type_name("N");
  command
    .add_option("--monitor", options.monitor,
                "Value that --patience watches: loss, a metric of the run "
                "such as accuracy or auc, or one of these with validation_ "
                "before it, on the test examples [validation_loss]")
    ->type_name("NAME");
  command
    .add_option("--on-nan", options.on_nan,
                "What to do when a loss is NaN: stop, or skip the step "
                "[stop]")
    ->type_name("WHAT");
  begin_group(command, of_faults);
  add_number(command, "--audit-steps", options.audit_steps, 0,
             train_option_limits::audit_steps,
             "Compare the copies of the parameters every N steps, if there "
             "are several processes; 0: never [100]")
    ->type_name("N");
  command
    .add_option("--on-deviation", options.on_deviation,
                "What to do when a copy deviates: stop, or heal (go back and "
                "make the steps again) [stop]")
    ->type_name("WHAT");
  begin_group(command, of_training);
  add_number(command, "--seed", options.seed, 0, ~std::uint64_t{0},
             "Seed of the initial weights and the order of examples [1]")
    ->type_name("N");
}

void add_placement_options(CLI::App& command, troupe::train_options& options) {
  begin_group(command, of_placement);
  command
    .add_option("--strategy", options.strategy,
                "default, one_device (all replicas on one device), mirrored "
                "(one replica per device), central_storage (as mirrored, with "
                "the parameters on one device), multi_worker_mirrored (several "
                "processes) or parameter_server (workers, and servers that "
                "hold the parameters) [chosen by the options below]")
    ->type_name("NAME");
  command
    .add_option_function<std::string>(
      "--devices",
      [&options](const std::string& text) {
        options.devices = parse_list("--devices", text, "cpu:0,cpu:1");
      },
      "Devices, as in cpu:0,cpu:1 or cuda:0; each has a replica. Several CUDA "
      "devices have a worker each, or are divided among those of --workers; "
      "each worker has all others [cpu:0]; see troupe devices")
    ->type_name("LIST");
  add_number(command, "--replicas", options.replicas, 1,
             train_option_limits::replicas,
             "Number of replicas: with one_device [1]; with mirrored and "
             "central_storage [one per device]; with workers, the total, also "
             "if it is no multiple of their number [one per worker]")
    ->type_name("N");
  command
    .add_option_function<std::string>(
      "--replica-shares",
      [&options](const std::string& text) {
        auto& shares = options.replica_shares.emplace();
        for (const auto& one : parse_list("--replica-shares", text, "3,1"))
          shares.push_back(static_cast<std::int64_t>(
            parse_integer("--replica-shares", one, 1, troupe::max_share)));
      },
      "Relative sizes of the replicas' parts of a batch, one for each "
      "replica, as in 3,1 [equal]")
    ->type_name("LIST");
  add_number(command, "--workers", options.workers, 1,
             train_option_limits::workers,
             "Number of processes on this machine [one per CUDA device, if "
             "several are named and no --strategy; else 1]; with TF_CONFIG, "
             "the number of its workers")
    ->type_name("N");
  begin_group(command, of_servers);
  add_number(command, "--servers", options.servers, 1,
             train_option_limits::servers,
             "Number of parameter servers, each a process; with TF_CONFIG, the "
             "number of its ps tasks [1]")
    ->type_name("N");
  command
    .add_option("--consistency", options.consistency,
                "How the gradients of workers change the parameters on "
                "servers: async, ssp:S (staleness at most S steps), sync, or "
                "sync-backup:B (the last B replicas of a step do not count) "
                "[async]")
    ->type_name("KIND");
  command
    .add_option("--table-consistency", options.table_consistency,
                "With --consistency sync or sync-backup:B, how the gradients "
                "of tables change them: async or ssp:S. Each replica of a step "
                "then updates the tables on its own [as --consistency]")
    ->type_name("KIND");
  add_number(command, "--replication", options.replication, 1,
             train_option_limits::servers,
             "Number of server processes that hold each part of the "
             "parameters: the run goes on if K - 1 of them are lost at once "
             "[1]")
    ->type_name("K");
  begin_group(command, of_placement);
  command
    .add_option("--transport", options.transport,
                "Transport of tensors between workers: auto, shm, tcp or tls "
                "[auto]")
    ->type_name("NAME");
  command
    .add_option(
      "--collectives", options.collectives,
      "What adds the gradients of replicas on CUDA devices: nccl (the "
      "devices), host (the processors), or auto (nccl if all of them "
      "can use it) [auto]")
    ->type_name("NAME");
  command
    .add_option("--graph", options.graph,
                "Capture the steps as graphs of a GPU, in one process: on or "
                "off [off]")
    ->type_name("WHAT");
  add_number(command, "--threads", options.threads, 1,
             train_option_limits::threads,
             "Number of threads of each replica [1]")
    ->type_name("N");
}

void add_restart_options(CLI::App& command, train_arguments& arguments) {
  begin_group(command, of_faults);
  add_number(
    command, "--restarts", arguments.restarts, 0, train_option_limits::epochs,
    "With --workers: start workers again that were killed, or whose GPU "
    "has failed, at most N times in all; they join the job. With parameter "
    "servers also servers and the evaluator; if servers have no copies, all go "
    "back to the last state that was kept (--save-steps) [0]")
    ->type_name("N");
  command
    .add_option_function<std::string>(
      "--on-sigterm",
      [&arguments](const std::string& text) {
        if (text != "save" && text != "leave")
          throw std::invalid_argument(
            "--on-sigterm " + text
            + ": give save (all workers save the run) or leave (this worker "
              "leaves the job, and the others go on)");
        arguments.sigterm_leaves = text == "leave";
      },
      "What SIGTERM does to a worker: save the run on all workers, or leave "
      "the job, which goes on; the last one saves [save]")
    ->type_name("WHAT");
  command.add_flag("--join", arguments.join,
                   "With TF_CONFIG: take the task of a worker that the "
                   "running job has lost");
  add_number(command, "--spare", arguments.spare_seconds, 1,
             train_option_limits::epochs,
             "With --join: wait at most S seconds until the worker that has "
             "the task on this machine has ended")
    ->type_name("S");
  command
    .add_option_function<std::string>(
      "--task",
      [&arguments](const std::string& text) {
        if (text != "any")
          throw std::invalid_argument(
            "--task " + text
            + ": give any, with --join and --spare; TF_CONFIG gives the task "
              "of a worker that has one");
        arguments.any_task = true;
      },
      "With --join --spare: any, to wait on any machine until the job lacks a "
      "worker, and take its task; the task in TF_CONFIG is not used")
    ->type_name("any");
  command
    .add_option("--listen", arguments.listen,
                "With --task any: address at which the other workers reach "
                "this one; port 0: a free one [127.0.0.1:0, if all workers are "
                "on this machine]")
    ->type_name("HOST:PORT");
}

void add_fault_options(CLI::App& command, train_arguments& arguments) {
  add_file(command, "--faults", arguments.faults,
           "For tests, with workers: inject the faults of the plan in FILE "
           "(JSON) into the processes")
    ->type_name("FILE");
}

void add_server_options(CLI::App& command, train_arguments& arguments) {
  begin_group(command, of_servers);
  command.add_flag("--evaluator", arguments.evaluator,
                   "With parameter servers: start a process that evaluates "
                   "each version of the file of --save, which is also saved at "
                   "the end of each epoch");
}

void add_file_options(CLI::App& command, train_arguments& arguments) {
  begin_group(command, of_files);
  add_file(command, "--save", arguments.save, "Write the trained model to FILE")
    ->type_name("FILE");
  add_file(command, "--summary", arguments.summary,
           "Write the results of the run to FILE, as JSON")
    ->type_name("FILE");
  add_file(command, "--resume", arguments.resume,
           "Continue the run in FILE: the rest of an interrupted one, or with "
           "more --epochs a complete one; options not given are taken from "
           "FILE")
    ->type_name("FILE");
  command.add_flag("--other-replicas", arguments.options.other_replicas,
                   "With --resume: allow another number of replicas than the "
                   "run had; the weights then have other bits");
  add_file(command, "--init", arguments.init,
           "Begin a new run with the weights in FILE; --model, --loss, "
           "--precision and --data are those of FILE if they are not given")
    ->type_name("FILE");
  add_number(command, "--max-steps", arguments.max_steps, 1,
             train_option_limits::epochs, "Interrupt the run after N steps")
    ->type_name("N");
  add_number(command, "--save-steps", arguments.save_steps, 1,
             train_option_limits::epochs,
             "Also save the run to the file of --save after every N steps, so "
             "that --resume can continue it if all processes are lost. With "
             "parameter servers its state is kept for --restarts too [with "
             "--restarts, at the end of each epoch]")
    ->type_name("N");
  add_number(command, "--save-epochs", arguments.save_epochs, 1,
             train_option_limits::epochs,
             "Also save the run to the file of --save after every N epochs")
    ->type_name("N");
  command.add_flag("--quiet", arguments.quiet, "Print only errors");
}

} // namespace

void add_train(CLI::App& tool, action& selected) {
  auto& command = *tool.add_subcommand("train", "Train a model");
  const auto arguments = std::make_shared<train_arguments>();
  add_training_options(command, arguments->options);
  add_placement_options(command, arguments->options);
  add_restart_options(command, *arguments);
  add_fault_options(command, *arguments);
  add_server_options(command, *arguments);
  add_file_options(command, *arguments);
  command.footer(train_examples);
  command.callback([arguments, &selected] {
    selected = [arguments] { return train(*arguments); };
  });
}
