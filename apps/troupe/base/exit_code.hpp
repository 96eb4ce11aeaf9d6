#pragma once

#include <string>

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
