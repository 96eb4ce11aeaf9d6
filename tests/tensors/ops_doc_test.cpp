#include "troupe/tensors/detail/op_check_cases.hpp"
#include "troupe/tensors/ops/all.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace troupe {
namespace {

using detail::tried_op;

/// Returns the table that docs/ops.md must contain.
std::string table() {
  std::ostringstream out;
  out << "| op | inputs | what it computes | differentiable | cases tried |\n"
         "|---|---|---|---|---|\n";
  for (const auto* x : ops::built_in)
    out << "| `" << x->name << "` | " << x->inputs.size()
        << (x->repeats_last_input ? " or more | " : " | ") << x->formula
        << " | "
        << (tried_op{x, 0}.differentiable() || x->is_reshape ? "yes" : "no")
        << " | " << x->cases.size() << " |\n";
  return out.str();
}

TEST(OpsDoc, ShowsTheListOfOps) {
  std::ifstream file{TROUPE_SOURCE_DIR "/docs/ops.md"};
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_NE(text.str().find(table()), std::string::npos)
    << "docs/ops.md should hold:\n"
    << table();
}

} // namespace
} // namespace troupe
