#include "tool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

// Tests of `troupe explain` on the files of failed jobs.

namespace {

using namespace troupe;

class Explain : public tool_test {
protected:
  /// Returns the names of the files that processes of a failed job wrote.
  std::vector<std::string> records() const {
    std::vector<std::string> out;
    for (const auto& x : std::filesystem::directory_iterator{folder})
      if (x.path().filename().string().starts_with("troupe-flight-"))
        out.push_back(x.path().filename().string());
    std::ranges::sort(out);
    return out;
  }

  outcome job(const std::string& words) const {
    return troupe("launch -n 2 --grace 2 -- " TROUPE_PROGRAMS "/reducer "
                  + words);
  }

  static void expect_parts(const outcome& shown,
                           std::initializer_list<const char*> parts) {
    EXPECT_EQ(shown.code, 0) << shown.err;
    for (const auto* part : parts)
      EXPECT_NE(shown.out.find(part), std::string::npos)
        << part << "\nis not in\n"
        << shown.out;
  }
};

TEST_F(Explain, NamesTheWorkerThatWasStoppedDuringAStep) {
  const auto failed = job("stopped-amid");
  EXPECT_EQ(failed.code, 3) << failed.err;
  const auto files = records();
  ASSERT_EQ(files.size(), 1u) << "a stopped process writes none\n"
                              << failed.err;
  EXPECT_EQ(files[0].rfind("troupe-flight-job-0-", 0), 0u) << files[0];
  EXPECT_NE(failed.err.find(files[0]), std::string::npos) << failed.err;
  expect_parts(troupe("explain " + files[0]),
               {"job job\n", "worker 0  run begun, run 1",
                "process unreachable, worker 1", "\nsummary\nworker 0: ",
                "missing: replica 1 of worker 1, in the sum of bucket ",
                "step 0; no progress for ", "decision ",
                "worker 1: no record was given\n"});
}

TEST_F(Explain, MergesTheFilesOfAllWorkersThatWereLeft) {
  const auto failed = job("absent 1000");
  EXPECT_EQ(failed.code, 3) << failed.err;
  const auto files = records();
  ASSERT_GE(files.size(), 1u) << failed.err;
  std::string words = "explain --all";
  for (const auto& x : files)
    words += " " + x;
  expect_parts(troupe(words), {"worker 0", "job failed", "worker 1"});
}

TEST_F(Explain, OfAJobThatEndsWellThereIsNoFile) {
  EXPECT_EQ(job("well").code, 0);
  EXPECT_TRUE(records().empty());
}

TEST_F(Explain, RefusesWhatIsNoRecord) {
  put("empty.bin", "");
  put("text.bin", "this is a text and not a record");
  expect_rejected("explain absent.bin", 1, {"absent.bin", "cannot be read"});
  expect_rejected("explain empty.bin", 1, {"empty.bin", "no record"});
  expect_rejected("explain text.bin", 1, {"text.bin", "no record"});
  expect_rejected("explain .", 1, {"cannot be read"});
  expect_rejected("explain", 2, {"FILE", "required"});
}

TEST_F(Explain, RefusesADamagedFileAndTheSameFileTwice) {
  EXPECT_EQ(job("stopped-amid").code, 3);
  const auto files = records();
  ASSERT_EQ(files.size(), 1u);
  expect_rejected("explain " + files[0] + " " + files[0], 2,
                  {files[0].c_str(), "the same process"});
  auto bytes = text_of(files[0]);
  put("short.bin", std::string_view{bytes}.substr(0, bytes.size() / 2));
  expect_rejected("explain short.bin", 1, {"short.bin", "bytes of"});
  bytes[bytes.size() / 2] ^= 1;
  put("flipped.bin", bytes);
  expect_rejected("explain flipped.bin", 1, {"flipped.bin", "checksum"});
}

} // namespace
