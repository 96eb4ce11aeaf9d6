#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <string>
#include <vector>

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
