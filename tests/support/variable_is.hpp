#pragma once

#include <cstdlib>

namespace troupe {

/// Sets an environment variable, and unsets it at the end of its lifetime. Null
/// value: the variable is unset from the start.
struct variable_is {
  variable_is(const char* name, const char* value) : name{name} {
    if (value)
      ::setenv(name, value, 1);
    else
      ::unsetenv(name);
  }
  ~variable_is() { ::unsetenv(name); }
  variable_is(const variable_is&) = delete;
  variable_is& operator=(const variable_is&) = delete;
  const char* name;
};

} // namespace troupe
