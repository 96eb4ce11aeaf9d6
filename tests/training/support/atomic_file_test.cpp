#include "troupe/tests/support/scratch.hpp"
#include "troupe/training/support/atomic_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <stdexcept>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

using namespace troupe;
namespace fs = std::filesystem;

std::string sentence(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "no error";
}

class AtomicFile : public scratch_test {};

TEST_F(AtomicFile, AppearsOnCommitAndNotBefore) {
  atomic_file out{folder / "a"};
  out.write("hello ");
  out.write("world");
  EXPECT_FALSE(fs::exists(folder / "a"));
  out.commit();
  EXPECT_EQ(text_of("a"), "hello world");
  EXPECT_EQ(files(), 1u);
}

TEST_F(AtomicFile, AppearsOnCommitAndNotOnSync) {
  put("a", "old");
  {
    atomic_file out{folder / "a"};
    out.write("new");
    out.sync();
    EXPECT_EQ(text_of("a"), "old");
  }
  EXPECT_EQ(files(), 1u);
  atomic_file out{folder / "a"};
  out.write("new");
  out.sync();
  out.commit();
  EXPECT_EQ(text_of("a"), "new");
  EXPECT_EQ(files(), 1u);
}

TEST_F(AtomicFile, SyncHasNoEffectOnWhatIsWrittenDirectly) {
  atomic_file out{"/dev/null"};
  out.write("x");
  out.sync();
  out.commit();
}

TEST_F(AtomicFile, UncommittedFileLeavesTheOldOneUnchanged) {
  put("a", "old");
  {
    atomic_file out{folder / "a"};
    out.write("new");
  }
  EXPECT_EQ(text_of("a"), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(AtomicFile, KeepsPermissionsOfTheReplacedFile) {
  put("a", "old");
  fs::permissions(folder / "a", fs::perms::owner_read | fs::perms::owner_write);
  atomic_file out{folder / "a"};
  out.commit();
  EXPECT_EQ(fs::status(folder / "a").permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(AtomicFile, ReplacesTheTargetOfALink) {
  put("a", "old");
  fs::create_symlink(folder / "a", folder / "link");
  atomic_file out{folder / "link"};
  out.write("new");
  out.commit();
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_EQ(text_of("a"), "new");
}

TEST_F(AtomicFile, FullDiskIsReported) {
  if (!fs::exists("/dev/full"))
    GTEST_SKIP() << "there is no /dev/full";
  const auto message = sentence([] {
    atomic_file out{"/dev/full"};
    out.write("x");
    out.commit();
  });
  EXPECT_EQ(message,
            "cannot write \"/dev/full\": No space left on device; free "
            "some space, or name a file on another disk");
}

TEST_F(AtomicFile, WriteErrorLeavesNoFile) {
  put("a", "old");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto message = sentence([this] {
    atomic_file out{folder / "a"};
    out.write(std::string(4000, 'x'));
    out.commit();
  });
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(message.find("File too large"), message.npos) << message;
  EXPECT_EQ(text_of("a"), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(AtomicFile, CheckReportsFilesThatCannotBeWritten) {
  EXPECT_NE(sentence([this] {
              check_writable(folder / "no" / "a");
            }).find("create its directory first"),
            std::string::npos);
  EXPECT_NE(sentence([this] { check_writable(folder); }).find("name a file"),
            std::string::npos);
  EXPECT_NE(sentence([] { check_writable(""); }).find("without a name"),
            std::string::npos);
  check_writable(folder / "a");
  EXPECT_EQ(files(), 0u);
}

TEST_F(AtomicFile, UsesTheReserveIfNoDescriptorIsLeft) {
  put("a", "old");
  // Without a virtual function: the check vptr of UBSan needs descriptors.
  const auto is_newer = [](const fs::path& a, const fs::path&) {
    auto* const in = std::fopen(a.c_str(), "r");
    EXPECT_TRUE(in);
    if (in)
      std::fclose(in);
    return false;
  };
  reserve_descriptors();
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const auto few =
    rlimit{std::min<rlim_t>(before.rlim_cur, 64), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<int> used;
  while ((used.push_back(::open("/dev/null", O_RDONLY)), used.back() >= 0)) {
  }
  used.pop_back();
  const auto error = errno;
  std::string problem;
  for (const auto* text : {"new", "newer"}) // the reserve is kept again
    problem += sentence([&] {
      atomic_file out{folder / "a"};
      out.write(text);
      EXPECT_TRUE(out.commit_unless(is_newer));
    });
  for (const auto one : used)
    ::close(one);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(error, EMFILE);
  EXPECT_EQ(problem, "no errorno error");
  EXPECT_EQ(text_of("a"), "newer");
}

TEST_F(AtomicFile, DirectoryWithoutPermissionIsReported) {
  if (::geteuid() == 0)
    GTEST_SKIP() << "root may write everywhere";
  fs::permissions(folder, fs::perms::owner_read | fs::perms::owner_exec);
  const auto said = sentence([this] { check_writable(folder / "a"); });
  fs::permissions(folder, fs::perms::owner_all);
  EXPECT_NE(said.find("that you may write to"), said.npos) << said;
}

TEST_F(AtomicFile, CheckDoesNotBlockOnAPipe) {
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  check_writable(folder / "pipe"); // Returns without a reader.
}

/// True if the text of a file is that of a later version, a number.
bool has_later_version(const fs::path& a, const fs::path& b) {
  const auto number = [](const fs::path& file) {
    int out = 0;
    std::ifstream{file} >> out;
    return out;
  };
  return number(a) > number(b);
}

TEST_F(AtomicFile, RemovesTheTemporaryFilesOfKilledProcesses) {
  const auto child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    atomic_file out{folder / "a"};
    out.write("unfinished");
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_EQ(files(), 1u);
  put("a.12-x.part", "another file");
  put("b.12-1.part", "a temporary file of another path");
  {
    atomic_file living{folder / "a"};
    atomic_file second{folder / "a"};
    EXPECT_EQ(files(), 4u); // The one of the killed process is gone.
    living.commit();
    second.commit();
  }
  EXPECT_EQ(files(), 3u);
}

TEST_F(AtomicFile, RemovesAllThatKilledProcessesHaveLeftForABeginningOfNames) {
  for (const auto* name : {"x-1.9-0.part", "x-2.9-1.part", "y.9-0.part", "x-3"})
    put(name, "");
  {
    atomic_file written{folder / "x-4"};
    remove_abandoned_files(folder, "x-");
    EXPECT_EQ(files(), 3u); // y.9-0.part, x-3, and what is written
    written.commit();
  }
  EXPECT_TRUE(fs::exists(folder / "x-4"));
  EXPECT_TRUE(fs::exists(folder / "y.9-0.part"));
}

TEST_F(AtomicFile, KeepsANewerFile) {
  put("a", "7");
  atomic_file out{folder / "a"};
  out.write("6");
  EXPECT_FALSE(out.commit_unless(has_later_version));
  EXPECT_EQ(text_of("a"), "7");
  atomic_file later{folder / "a"};
  later.write("8");
  EXPECT_TRUE(later.commit_unless(has_later_version));
  EXPECT_EQ(text_of("a"), "8");
  atomic_file first{folder / "b"};
  first.write("1");
  EXPECT_TRUE(first.commit_unless(has_later_version));
  EXPECT_EQ(text_of("b"), "1");
}

TEST_F(AtomicFile, KeepsAFileThatBecomesNewerAfterTheComparison) {
  put("a", "5");
  int comparisons = 0;
  bool kept = false;
  {
    atomic_file out{folder / "a"};
    out.write("6");
    kept = !out.commit_unless([&](const fs::path& a, const fs::path& b) {
      const auto result = has_later_version(a, b);
      // Other processes save between the comparison and the replacement.
      if (++comparisons == 1)
        put("a", "9");
      else if (comparisons == 2)
        put("a", "8");
      return result;
    });
  }
  EXPECT_TRUE(kept);
  EXPECT_EQ(text_of("a"), "9");
  EXPECT_EQ(comparisons, 3);
  EXPECT_EQ(files(), 1u);
}

TEST_F(AtomicFile, KeepsANewerFileWhileOthersRemoveAbandonedOnes) {
  put("a", "5");
  int comparisons = 0;
  bool kept = false;
  {
    atomic_file out{folder / "a"};
    out.write("6");
    kept = !out.commit_unless([&](const fs::path& a, const fs::path& b) {
      if (++comparisons == 1) {
        const auto result = has_later_version(a, b);
        put("a", "9");
        return result;
      }
      // The newer file is at the temporary path now.
      const atomic_file other{folder / "a"};
      return has_later_version(a, b);
    });
  }
  EXPECT_TRUE(kept);
  EXPECT_EQ(comparisons, 3);
  EXPECT_EQ(text_of("a"), "9");
  EXPECT_EQ(files(), 1u);
}

TEST_F(AtomicFile, ReportsADiskWithoutSpaceBeforeTheContentExists) {
  struct statvfs disk {};
  ASSERT_EQ(::statvfs(folder.c_str(), &disk), 0);
  const auto message = sentence([&] {
    check_writable(folder / "a", std::uint64_t{disk.f_blocks} * disk.f_frsize
                                   + disk.f_frsize);
  });
  EXPECT_TRUE(message.find("No space left") != message.npos
              || message.find("File too large") != message.npos)
    << message;
  EXPECT_EQ(files(), 0u);
}

} // namespace
