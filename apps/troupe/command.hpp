#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <string>
#include <vector>

/// What a command ends with, as the shell sees it.
enum exit_code : int {
  ok = 0,
  failed = 1,
  misused = 2,
  unsaved = 3,       ///< Interrupted, and nothing was saved.
  interrupted = 130, ///< And saved, so that --resume goes on.
};

/// Writes the tool's last line: `troupe:` and a sentence, which may quote
/// another process, without control characters.
/// @returns the code.
int say(int code, const std::string& sentence);

/// What is to be done, once the command line was read.
using action = std::function<int()>;

// Each adds a command to the tool, which sets `what` if it was given.
void add_train(CLI::App& tool, action& what);
void add_predict(CLI::App& tool, action& what);
void add_models(CLI::App& tool, action& what);
void add_cert(CLI::App& tool, action& what);
void add_node(CLI::App& tool, action& what);
void add_status(CLI::App& tool, action& what);

/// @param program what follows "--" on the command line.
void add_launch(CLI::App& tool, action& what,
                const std::vector<std::string>& program);
