#include "tool.hpp"

#include <gtest/gtest.h>

namespace {

using namespace troupe;

class BadInput : public tool_test {};

TEST_F(BadInput, IsWrongUseWithAWordOnWhatWouldDo) {
  refuses("train --model lenett", 2, {"lenett", "lenet"});
  refuses("train --data imagenet", 2, {"imagenet", "digits"});
  refuses("train --data digits:none", 2, {"digits:none", "digits:14000"});
  refuses("train --epochs 0", 2, {"--epochs 0"});
  refuses("train --epochs many", 2, {"--epochs", "many"});
  refuses("train --batch 0", 2, {"--batch 0"});
  refuses("train --batch 1 --replicas 2", 2, {"--batch 1", "at least 2"});
  refuses("train --threads 0", 2, {"--threads 0"});
  refuses("train --optimizer adamm", 2, {"adamm", "adamw"});
  refuses("train --learning-rate -1", 2, {"--learning-rate -1"});
  refuses("train --strategy mirorred", 2, {"mirorred", "mirrored"});
  refuses("train --devices cpu:0,cpu:0", 2, {"cpu:0", "twice"});
  refuses("train --devices cpu:0,tpu:1", 2, {"tpu:1", "cpu:0"});
  refuses("train --devices cpu:0,cpu:1 --replicas 3", 2, {"--replicas 3"});
  refuses("train --strategy mirrored", 2, {"--devices"});
  refuses("train --colour red", 2, {"--colour"});
  refuses("rehearse", 2, {"rehearse"});
  refuses("", 2, {"train, predict or models"});
  refuses("predict", 2, {"--model"});
  refuses("models nope", 2, {"nope", "lenet"});
}

TEST_F(BadInput, IsAFailureIfAFileIsNotWhatItShouldBe) {
  refuses("train --data mnist:/nowhere", 1, {"/nowhere"});
  refuses("train --data csv:none.csv", 1, {"none.csv"});
  refuses("train --resume none.troupe", 1, {"none.troupe"});
  refuses("predict --model none.troupe", 1, {"none.troupe"});
  put("text", "this is no model");
  refuses("train --resume text", 1, {"\"text\"", "no saved model"});
  refuses("predict --model text", 1, {"\"text\"", "no saved model"});
}

TEST_F(BadInput, NamesLineColumnAndValueOfATable) {
  put("t.csv", "a,b\n1,0\n2,x\n");
  refuses("train --data csv:t.csv", 1, {"t.csv", "x"});
  put("u.csv", "a,b\n1,0\n2,1\n");
  refuses("train --data csv:u.csv:c", 1, {"\"c\"", "a", "b"});
}

TEST_F(BadInput, NamesWhatIsWrongInADescription) {
  put("m.json", "{");
  refuses("train --model m.json", 2, {"m.json"});
  put("m.json", R"({"version": 1, "name": "m", "input": [2],
                    "layers": [{"type": "dance"}]})");
  refuses("train --model m.json", 2, {"m.json", "dance"});
  refuses("train --model none.json", 2, {"none.json"});
}

TEST_F(BadInput, SaysThatDataAndModelDoNotFit) {
  put("t.csv", "a,b\n1,0\n2,1\n3,0\n4,1\n5,0\n");
  refuses("train --data csv:t.csv --batch 2", 2, {"[28, 28, 1]", "[1]"});
}

TEST_F(BadInput, IsToldBeforeTheWorkWhereOutputsCannotBeWritten) {
  refuses("train --save no/x.model", 1, {"no/x.model", "directory"});
  refuses("train --summary no/s.json", 1, {"no/s.json", "directory"});
  refuses("train --summary .", 1, {"\".\""});
}

TEST_F(BadInput, LeavesNothingBehindWhenTheDiskIsFull) {
  child_options full;
  full.file_limit = 100'000;
  const auto words =
    "train --data digits:70 --epochs 1 --quiet --save m.troupe";
  refuses(words, 1, {"m.troupe", "File too large"}, full);
  put("m.troupe", "what was there before");
  refuses(words, 1, {"m.troupe", "File too large"}, full);
  EXPECT_EQ(text_of("m.troupe"), "what was there before");
}

TEST_F(BadInput, SaysThatStandardOutputIsFull) {
  ASSERT_EQ(
    troupe("train --data digits:70 --epochs 1 --quiet --save m.troupe").code,
    0);
  child_options full;
  full.out_file = "/dev/full";
  refuses("predict --model m.troupe --data digits:70", 1, {"standard output"},
          full);
  refuses("predict --model m.troupe --data digits:70 --output /dev/full", 1,
          {"/dev/full", "No space left"});
}

TEST_F(BadInput, StopsAtALossThatIsNoNumberUnlessToldToGoOn) {
  const std::string words = "train --data digits:350 --epochs 2 --quiet "
                            "--optimizer sgd --learning-rate 1e30";
  refuses(words, 1, {"at step", "smaller learning rate"});
  EXPECT_EQ(troupe(words + " --on-nan skip --log off").code, 0);
}

TEST_F(BadInput, IsAnsweredByHelpThatShowsExamples) {
  const auto tool = troupe("--help");
  EXPECT_EQ(tool.code, 0);
  EXPECT_NE(tool.out.find("Examples:"), std::string::npos);
  const auto train = troupe("train --help");
  EXPECT_EQ(train.code, 0);
  EXPECT_NE(train.out.find("troupe train --resume"), std::string::npos);
  EXPECT_NE(troupe("--version").out.find("0.1"), std::string::npos);
}

TEST_F(BadInput, DoesNotReachTheListOfModels) {
  const auto all = troupe("models");
  EXPECT_NE(all.out.find("lenet\n"), std::string::npos);
  EXPECT_NE(troupe("models mlp").out.find("669,706"), std::string::npos);
  put("m.json", troupe("models mlp --json").out);
  EXPECT_EQ(troupe("models m.json").code, 0);
}

} // namespace
