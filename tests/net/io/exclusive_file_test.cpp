#include "troupe/net/io/exclusive_file.hpp"
#include "troupe/tests/support/scratch.hpp"

#include <sys/stat.h>

namespace {

using namespace troupe;

class ExclusiveFile : public scratch_test {
protected:
  mode_t mode_of(std::string_view name) const {
    struct stat x {};
    EXPECT_EQ(::stat((folder / name).c_str(), &x), 0);
    return x.st_mode & 0777;
  }
};

TEST_F(ExclusiveFile, IsReadableByItsOwnerOnlyIfItIsASecret) {
  net::write_new_file(folder / "a", "text", net::file_access::owner);
  EXPECT_EQ(text_of("a"), "text");
  EXPECT_EQ(mode_of("a"), 0600);
  net::write_new_file(folder / "b", "", net::file_access::everyone);
  EXPECT_NE(mode_of("b") & 0600, 0);
}

TEST_F(ExclusiveFile, ReplacesNoExistingFile) {
  put("a", "first");
  EXPECT_THROW(net::write_new_file(folder / "a", "x", net::file_access::owner),
               std::runtime_error);
  EXPECT_EQ(text_of("a"), "first");
  std::filesystem::create_symlink(folder / "nowhere", folder / "link");
  EXPECT_THROW(
    net::write_new_file(folder / "link", "x", net::file_access::owner),
    std::runtime_error);
  EXPECT_EQ(files(), 2u);
}

TEST_F(ExclusiveFile, NamesTheFileAndTheReasonIfTheFolderIsMissing) {
  try {
    net::write_new_file(folder / "no" / "a", "x", net::file_access::owner);
    FAIL() << "it was written";
  } catch (const std::runtime_error& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find("no/a\""), text.npos) << text;
    EXPECT_NE(text.find("No such file or directory"), text.npos) << text;
  }
}

} // namespace
