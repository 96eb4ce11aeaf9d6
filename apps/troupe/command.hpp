#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <string>
#include <vector>

/// Exit code of the tool.
enum exit_code : int {
  ok = 0,
  failed = 1,
  usage_error = 2,
  unsaved = 3,       ///< The run was interrupted and nothing was saved.
  device_failed = 4, ///< A device of the process has failed.
  interrupted = 130, ///< The run was saved; --resume continues it.
};

/// Writes the last line of the tool: `troupe:` and a sentence. Control
/// characters are replaced, because the sentence may quote another process.
/// @returns `code`.
int report_error(int code, const std::string& sentence);

/// Runs the command that was read from the command line. @returns the exit
/// code.
using action = std::function<int()>;

// Each function adds a command to the tool. If the command line contains the
// command, its callback sets `selected`.
void add_train(CLI::App& tool, action& selected);
void add_evaluate(CLI::App& tool, action& selected);
void add_predict(CLI::App& tool, action& selected);
void add_models(CLI::App& tool, action& selected);
void add_devices(CLI::App& tool, action& selected);
void add_cert(CLI::App& tool, action& selected);
void add_node(CLI::App& tool, action& selected);
void add_status(CLI::App& tool, action& selected);
void add_explain(CLI::App& tool, action& selected);

/// Adds `launch`. @param program the words after "--" on the command line.
void add_launch(CLI::App& tool, action& selected,
                const std::vector<std::string>& program);
