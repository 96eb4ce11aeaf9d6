#include "troupe/net/io/temporary_folder.hpp"
#include "troupe/tests/support/error_text.hpp"
#include "troupe/tests/support/scratch.hpp"
#include "troupe/tests/support/variable_is.hpp"

#include <gtest/gtest.h>

namespace {

using namespace troupe;

using TemporaryFolder = scratch_test;

TEST_F(TemporaryFolder, IsThatOfTheVariable) {
  const variable_is named{"TMPDIR", folder.c_str()};
  EXPECT_EQ(net::temporary_folder(), folder);
}

TEST_F(TemporaryFolder, ThatIsNoneIsAnErrorWithTheVariableAndARemedy) {
  put("file", "");
  for (const auto* name : {"none", "file"}) {
    const auto path = (folder / name).string();
    const variable_is named{"TMPDIR", path.c_str()};
    const auto said = test::text_of([] { net::temporary_folder(); });
    EXPECT_TRUE(said.starts_with("TMPDIR is \"" + path + "\", which is no "))
      << said;
    EXPECT_NE(said.find("; set it to a folder for temporary files, or unset"),
              said.npos)
      << said;
  }
}

} // namespace
