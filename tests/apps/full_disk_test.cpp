#include "background.hpp"
#include "tool.hpp"

#include <gtest/gtest.h>

#include <filesystem>

// Tests of runs whose file of --save cannot be written.

namespace {

using namespace troupe;
namespace fs = std::filesystem;

class FullDisk : public tool_test {
protected:
  /// Starts a run, and removes the folder of its file after the first epoch.
  /// @returns its output, of which the last line is its exit code.
  std::string output_without_folder(const std::string& more) const {
    fs::create_directory(folder / "saved");
    fs::create_directory(folder / "tmp");
    background_process tool{
      {"/bin/sh", "-c",
       "cd " + folder.string() + " && TMPDIR=" + (folder / "tmp").string()
         + " exec " TROUPE_TOOL " train --model mlp --data digits:350"
           " --epochs 20 --save saved/a.model "
         + more + " 2>&1"}};
    std::string output;
    for (auto line = tool.line(); line != "[no line]"; line = tool.line()) {
      output += line + "\n";
      if (line.find("epoch 1/20") != line.npos)
        fs::remove_all(folder / "saved");
    }
    return output + std::to_string(tool.end());
  }

  void expect_kept_elsewhere(const std::string& output) const {
    EXPECT_TRUE(output.ends_with("\n1")) << output;
    EXPECT_NE(output.find("cannot write \"saved/a.model\""), output.npos)
      << output;
    const auto hash = output.find("weights_sha256 ");
    ASSERT_NE(hash, output.npos) << output;
    const auto name = "a." + output.substr(hash + 15, 12) + ".model";
    EXPECT_TRUE(fs::exists(folder / "tmp" / name)) << output;
    EXPECT_NE(output.find("is saved in"), output.npos) << output;
    const auto read = troupe("predict --model tmp/" + name + " --data digits");
    EXPECT_EQ(read.code, 0) << read.err;
  }
};

TEST_F(FullDisk, AtTheEndOfARunKeepsTheModelElsewhere) {
  expect_kept_elsewhere(output_without_folder(""));
}

TEST_F(FullDisk, AtTheEndOfARunOfTwoWorkersKeepsTheModelElsewhere) {
  expect_kept_elsewhere(output_without_folder("--workers 2"));
}

TEST_F(FullDisk, AtTheStartIsReportedBeforeTheTraining) {
  // 100 blocks of 512 bytes: less than the model needs.
  const auto done = run_child(
    {"/bin/sh", "-c",
     "trap '' XFSZ; ulimit -f 100; exec " TROUPE_TOOL
     " train --model mlp --data digits:350 --epochs 1 --save a.model"},
    {.folder = folder});
  EXPECT_EQ(done.code, 1);
  EXPECT_NE(done.err.find("ulimit -f"), std::string::npos) << done.err;
  EXPECT_EQ(done.err.find("epoch"), std::string::npos) << done.err;
  EXPECT_EQ(done.out, "");
  EXPECT_EQ(files(), 0u);
}

} // namespace
