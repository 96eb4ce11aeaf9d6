#include "troupe/apps/troupe/commands/saved_run.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/core/log.hpp"
#include "troupe/apps/troupe/base/exit_code.hpp"
#include "troupe/apps/troupe/base/run_data.hpp"
#include "troupe/apps/troupe/commands/handed_model.hpp"
#include "troupe/tensors/base/device_error.hpp"
#include "troupe/training/checkpoint/saved_model.hpp"
#include "troupe/training/job/job_json.hpp"
#include "troupe/training/support/atomic_file.hpp"

#include <algorithm>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

using namespace troupe;

namespace {

/// Calls `read(file)`, or `read` with the version before if that throws.
/// @returns what it has returned, and whether it is of the version before.
template <class F>
auto read_intact(const std::filesystem::path& file, const F& read) {
  try {
    return std::pair{read(file), false};
  } catch (const std::runtime_error& e) {
    const auto previous = previous_version_of(file);
    if (!std::filesystem::exists(previous))
      throw;
    auto found = read(previous);
    log(log_level::warning, std::string{e.what()}
                              + "; the version before it, \""
                              + previous.string() + "\", is used");
    return std::pair{std::move(found), true};
  }
}

/// Returns the options of the run that has saved a file. If a program has saved
/// it, only those that its header has.
train_options saved_options(const std::string& file) {
  const auto header = header_of(file);
  train_options out;
  try {
    out = read_train_options(header.note);
  } catch (const std::runtime_error&) { // the note is one of a program
  }
  out.model = out.model.value_or(header.model.name);
  out.loss = out.loss.value_or(header.loss);
  if (!out.precision)
    out.precision = models::to_string(header.precision);
  return out;
}

/// True on the worker that writes files. Another worker succeeds a chief that
/// is lost.
bool is_chief(const model& of) {
  return of.made_in().worker() == 0;
}

} // namespace

std::filesystem::path previous_version_of(const std::filesystem::path& file) {
  auto out = file;
  out += ".previous";
  return out;
}

bool keep_previous_version(const std::filesystem::path& file) {
  const auto previous = previous_version_of(file);
  auto linked = previous;
  linked += ".new";
  std::error_code problem;
  if (!std::filesystem::is_regular_file(file, problem))
    return false;
  std::filesystem::remove(linked, problem);
  std::filesystem::create_hard_link(file, linked, problem);
  if (!problem)
    std::filesystem::rename(linked, previous, problem);
  if (problem)
    log(log_level::warning, "the version before the next one of "
                              + file.string()
                              + " is not kept: " + problem.message());
  return !problem;
}

resumed_run load_resumed(const train_arguments& arguments) {
  auto [state, is_previous] = read_intact(
    arguments.resume, [](const auto& file) { return model::load(file); });
  return {std::move(state), is_previous};
}

std::string resumed_note(const train_arguments& arguments) {
  return read_intact(arguments.resume,
                     [](const auto& file) { return saved_note(file); })
    .first;
}

table_columns columns_of(const model& saved) {
  try {
    const auto options = read_train_options(saved.note());
    const std::vector<std::string> none;
    return {options.columns.value_or(none), options.labels.value_or(none)};
  } catch (const std::runtime_error&) { // another program has saved it
    return {};
  }
}

models::model_description resumed_model(const train_arguments& arguments) {
  return read_intact(arguments.resume,
                     [](const auto& file) { return header_of(file).model; })
    .first;
}

train_options options_of(const train_arguments& arguments) {
  if (!arguments.init.empty()) {
    const auto saved = saved_options(arguments.init);
    auto out = arguments.options;
    const auto take = [&](auto train_options::*option) {
      if (!(out.*option))
        out.*option = saved.*option;
    };
    take(&train_options::model);
    take(&train_options::data);
    take(&train_options::loss);
    take(&train_options::precision);
    if (!out.data)
      throw std::invalid_argument("--init " + arguments.init
                                  + ": the file does not say on what its model "
                                    "was trained; give --data");
    // The columns of a table in the order of the saved model.
    if (out.data == saved.data || out.data->starts_with("csv:")) {
      take(&train_options::columns);
      take(&train_options::labels);
    }
    return out;
  }
  if (arguments.resume.empty())
    return arguments.options;
  return merge_for_resume(read_train_options(resumed_note(arguments)),
                          arguments.options);
}

void check_outputs(const train_arguments& arguments,
                   const train_config& config) {
  if (!arguments.resume.empty()) {
    std::error_code none; // The version before the file may be used.
    const auto bytes = std::filesystem::file_size(arguments.resume, none);
    check_writable(arguments.save_path(), none ? 0 : bytes);
  } else if (!arguments.save.empty()) {
    check_writable(arguments.save_path(),
                   saved_bytes(model_of(arguments, config), config.rule()));
  }
  if (!arguments.summary.empty())
    check_writable(arguments.summary);
}

std::exception_ptr save_run(const model& model,
                            const train_arguments& arguments,
                            const train_config& config) {
  const auto note = write_train_options(to_options(config));
  const std::filesystem::path file{arguments.save_path()};
  std::exception_ptr problem;
  try {
    model.save(file, note);
    return nullptr;
  } catch (const job_error&) {
    throw; // The caller saves what this process has.
  } catch (const device_lost&) {
    throw;
  } catch (const std::runtime_error&) {
    problem = std::current_exception();
  }
  try {
    // The name is equal on all workers, and no other run has it.
    const auto other =
      std::filesystem::temp_directory_path()
      / (file.stem().string() + "." + model.weights_sha256().substr(0, 12)
         + file.extension().string());
    model.save(other, note);
    if (is_chief(model))
      log(log_level::error, "the model is saved in " + other.string()
                              + ", because " + file.string()
                              + " cannot be written");
  } catch (const job_error&) {
    throw;
  } catch (const device_lost&) {
    throw;
  } catch (const std::runtime_error& e) {
    log(log_level::error, e.what());
  }
  return problem;
}

void check_resumable(const train_arguments& arguments,
                     const train_config& config) {
  if (arguments.resume.empty())
    return;
  const auto found = read_intact(arguments.resume, [](const auto& file) {
                       return header_of(file);
                     }).first.fit;
  const auto subject = "--resume " + arguments.resume + ": ";
  const auto new_run =
    "--init " + arguments.resume + " begins a new run with its weights";
  if (!found)
    throw std::invalid_argument(
      subject
      + "the run in this file has ended, and cannot go on as if it had not: "
        "early stopping has ended it or restored its best weights, or an older "
        "Troupe has saved it; "
      + new_run);
  const auto done = found->epochs_done();
  const auto epochs = std::to_string(done) + (done == 1 ? " epoch" : " epochs");
  if (found->is_complete && config.epochs == done)
    throw std::invalid_argument(subject + "the run is complete, with " + epochs
                                + "; give --epochs N with more to train on, or "
                                + new_run);
  // The job may have failed after the last step of the last epoch.
  if (!found->is_complete && found->next_batch.index == 0
      && config.epochs == done)
    return;
  if (config.epochs <= done)
    throw std::invalid_argument("--epochs " + std::to_string(config.epochs)
                                + ": the run has completed " + epochs
                                + "; give more");
}

model new_model(const train_arguments& arguments, const train_config& config) {
  model out{model_of(arguments, config), config.rule(),
            model_options_of(config)};
  if (!arguments.init.empty())
    out.load_weights(arguments.init);
  return out;
}

bool is_unfinished(const history& result) {
  return result.end == fit_end::interrupted || result.end == fit_end::max_steps;
}

int report_end(const history& result) {
  if (is_unfinished(result))
    return interrupted;
  const bool has_update =
    result.epochs.empty()
    || std::ranges::any_of(
      result.epochs, [](const epoch_record& x) { return x.examples > 0; });
  if (has_update)
    return ok;
  return report_error(failed, "no step of the run has made its update: the "
                              "loss or a gradient of each was not finite (try "
                              "a smaller learning rate, or scale the data)");
}

void print_interrupted(const train_arguments& arguments, std::uint64_t steps) {
  std::cerr << "interrupted after step " << steps << "; continue with: "
            << "troupe train --resume " << arguments.save_path() << '\n';
}
