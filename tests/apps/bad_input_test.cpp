#include "tool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace {

using namespace troupe;

class BadInput : public tool_test {};

TEST_F(BadInput, IsAUsageErrorWithAValidExample) {
  expect_rejected("train --model lenett", 2, {"lenett", "lenet"});
  expect_rejected("train --data imagenet", 2, {"imagenet", "digits"});
  expect_rejected("train --data digits:none", 2,
                  {"digits:none", "digits:14000"});
  expect_rejected("train --epochs 0", 2, {"--epochs 0"});
  expect_rejected("train --epochs many", 2, {"--epochs", "many"});
  expect_rejected("train --batch 0", 2, {"--batch 0"});
  expect_rejected("train --batch 1 --replicas 2", 2,
                  {"--batch 1", "at least 2"});
  expect_rejected("train --threads 0", 2, {"--threads 0"});
  expect_rejected("train --optimizer adamm", 2, {"adamm", "adamw"});
  expect_rejected("train --learning-rate -1", 2, {"--learning-rate -1"});
  expect_rejected("train --strategy mirorred", 2, {"mirorred", "mirrored"});
  expect_rejected("train --devices cpu:0,cpu:0", 2, {"cpu:0", "twice"});
  expect_rejected("train --devices cpu:0,tpu:1", 2, {"tpu:1", "cpu:0"});
  expect_rejected("train --devices gpu:99", 2, {"--devices gpu:99", "CUDA"});
  expect_rejected("train --devices cpu:0,cpu:1 --replicas 3", 2,
                  {"--replicas 3"});
  expect_rejected("train --strategy mirrored", 2, {"--devices"});
  expect_rejected("train --colour red", 2, {"--colour"});
  expect_rejected("rehearse", 2, {"rehearse: there is no such command; see"});
  expect_rejected(
    "", 2,
    {"train, evaluate, predict, models, devices, launch, cert, node, status "
     "or explain"});
  expect_rejected("predict", 2, {"--model"});
  expect_rejected("models nope", 2, {"nope", "lenet"});
}

TEST_F(BadInput, IsAnsweredWithTheNameThatIsMeant) {
  expect_rejected(
    "trian", 2,
    {"trian: there is no such command; did you mean \"train\"? see troupe"});
  expect_rejected("evalute --model m", 2, {"did you mean \"evaluate\"?"});
  expect_rejected("train --modle mlp", 2,
                  {"--modle: there is no such option; did you mean "
                   "\"--model\"? see troupe train --help"});
  expect_rejected("train --epoch=3", 2, {"did you mean \"--epochs\"?"});
  expect_rejected("predict --modle m", 2, {"did you mean \"--model\"?"});
  expect_rejected("train --lgo off", 2, {"did you mean \"--log\"?"});
  expect_rejected("train --strategy mirored --workers 2", 2,
                  {"--strategy \"mirored\": did you mean \"mirrored\"? give "
                   "default, one_device, mirrored, central_storage, "
                   "multi_worker_mirrored or parameter_server"});
  expect_rejected("train --strategy horovod", 2,
                  {"--strategy \"horovod\": give default, "});
  expect_rejected("train --workers 2 --transport tpc", 2,
                  {"did you mean \"tcp\"? give auto, shm, tcp or tls"});
  expect_rejected("train --on-nan skipp", 2, {"did you mean \"skip\"?"});
  expect_rejected("train --data digit:70", 2, {"did you mean \"digits\"?"});
  expect_rejected("train --data idx:images", 2,
                  {"data \"idx:images\" has no labels; idx:FILE is only for "
                   "troupe predict; give digits, "});
  expect_rejected("train --precision bf6", 2,
                  {"--precision \"bf6\": did you mean \"bf16\"? give float32, "
                   "bf16 or tf32"});
  expect_rejected("train --optimizer adan:beta1=0.5", 2,
                  {"--optimizer \"adan\": did you mean \"adam\"? give sgd, "
                   "adam, adamw, adagrad or ftrl"});
  expect_rejected("train --schedule cosin", 2,
                  {"--schedule \"cosin\": did you mean \"cosine\"? give "
                   "constant, step or cosine"});
  expect_rejected("train --servers 1 --consistency synk", 2,
                  {"--consistency \"synk\": did you mean \"sync\"? give "});
  expect_rejected("train --servers 1 --consistency sssp:2", 2,
                  {"--consistency \"sssp:2\": did you mean \"ssp\"? give "});
  expect_rejected("train --servers 1 --consistency sync --table-consistency "
                  "asink",
                  2, {"did you mean \"async\"? give async or ssp:S"});
}

TEST_F(BadInput, IsALearningRateThatIsNoFloat) {
  for (const std::string rate : {"1e-50", "1e39"})
    expect_rejected("train --data digits:70 --learning-rate " + rate, 2,
                    {"--learning-rate 1e", "a 32-bit number cannot be"});
  expect_rejected("train --learning-rate 0", 2,
                  {"--learning-rate 0: give a number above 0, as in 0.001"});
}

TEST_F(BadInput, NamesOptionValueAndRangeOfANumber) {
  const auto huge = "99999999999999999999";
  expect_rejected("train --seed -1", 2,
                  {"--seed -1:", "0 to 18446744073709551615"});
  expect_rejected("train --max-steps -1", 2, {"--max-steps -1:", "from 1 to"});
  for (const std::string option :
       {"epochs", "batch", "patience", "replicas", "threads", "max-steps"})
    expect_rejected("train --" + option + " " + huge, 2,
                    {("--" + option + " " + huge + ":").c_str(), "from 1 to"});
  expect_rejected("train --epochs 3x", 2, {"--epochs 3x:", "from 1 to"});
  expect_rejected("train --epochs ''", 2, {"--epochs \"\":", "from 1 to"});
  expect_rejected("train --learning-rate 1e999", 2, {"--learning-rate 1e999:"});
  expect_rejected("predict --model m --count -1", 2,
                  {"--count -1:", "from 0 to"});
  expect_rejected("predict --model m --threads 0", 2,
                  {"--threads 0:", "from 1 to"});
}

TEST_F(BadInput, NamesTheEmptyOption) {
  expect_rejected("train --save ''", 2, {"--save \"\":", "name a file"});
  expect_rejected("train --summary ''", 2, {"--summary \"\":", "name a file"});
  expect_rejected("train --resume ''", 2, {"--resume \"\":", "name a file"});
  expect_rejected("train --devices ''", 2, {"--devices \"\":", "cpu:0"});
  expect_rejected("train --devices cpu:0,", 2, {"--devices cpu:0,:", "empty"});
  expect_rejected("predict --model m --output ''", 2, {"--output \"\":"});
}

TEST_F(BadInput, IsOneFileForTwoOptions) {
  expect_rejected("train --save a --summary ./a", 2,
                  {"--summary ./a:", "--save"});
  expect_rejected("train --resume a --summary a", 2,
                  {"--summary a:", "--resume"});
  expect_rejected("train --summary interrupted.troupe", 2,
                  {"an interrupted run"});
  expect_rejected("predict --model a --output a", 2,
                  {"--output a:", "--model"});
}

TEST_F(BadInput, IsAPrecisionThatTheDevicesLack) {
  expect_rejected("train --precision tf32", 2,
                  {"--precision tf32: only GPUs", "float32 or bf16"});
}

TEST_F(BadInput, IsTwoOptionsThatContradictEachOther) {
  expect_rejected(
    "train --optimizer adam:learning_rate=0.1 --learning-rate 0.2", 2,
    {"--optimizer adam:learning_rate=0.1", "--learning-rate"});
}

TEST_F(BadInput, GetsOneSentenceFromTheParserToo) {
  for (const auto* words : {"train --colour red", "train --epochs",
                            "train --log loud", "train again"}) {
    SCOPED_TRACE(words);
    const auto said = troupe(words).err;
    EXPECT_EQ(said.rfind("troupe: ", 0), 0u) << said;
    EXPECT_NE(said.find("; see troupe train --help\n"), said.npos) << said;
    EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
  }
  const auto said = troupe("train --optimizer adamm").err;
  EXPECT_EQ(said.rfind("troupe: --optimizer \"adamm\": ", 0), 0u) << said;
}

TEST_F(BadInput, IsAFailureIfAFileIsNotWhatItShouldBe) {
  expect_rejected("train --data mnist:/nowhere", 1, {"/nowhere"});
  expect_rejected("train --data csv:none.csv", 1, {"none.csv"});
  expect_rejected("train --resume none.troupe", 1, {"none.troupe"});
  expect_rejected("predict --model none.troupe", 1, {"none.troupe"});
  put("text", "this is no model");
  expect_rejected("train --resume text", 1, {"\"text\"", "not a saved model"});
  expect_rejected("predict --model text", 1, {"\"text\"", "not a saved model"});
}

TEST_F(BadInput, NamesLineColumnAndValueOfATable) {
  put("t.csv", "a,b\n1,0\n2,x\n");
  expect_rejected("train --data csv:t.csv", 1, {"t.csv", "x"});
  put("u.csv", "a,b\n1,0\n2,1\n");
  expect_rejected("train --data csv:u.csv:c", 2, {"\"c\"", "a", "b"});
}

TEST_F(BadInput, NamesTheErrorInADescription) {
  put("m.json", "{");
  expect_rejected("train --model m.json", 2, {"m.json"});
  put("m.json", R"({"version": 1, "name": "m", "input": [2],
                    "layers": [{"type": "dance"}]})");
  expect_rejected("train --model m.json", 2, {"m.json", "dance"});
  expect_rejected("train --model none.json", 1, {"none.json"});
  expect_rejected("models none.json", 1, {"none.json"});
}

TEST_F(BadInput, NamesTheShapesOfDataAndModelThatDiffer) {
  put("t.csv", "a,b\n1,0\n2,1\n3,0\n4,1\n5,0\n");
  expect_rejected("train --data csv:t.csv --batch 2", 2,
                  {"[28, 28, 1]", "[1]"});
}

TEST_F(BadInput, NamesUnwritableOutputsBeforeTraining) {
  expect_rejected("train --save no/x.model", 1, {"no/x.model", "directory"});
  expect_rejected("train --summary no/s.json", 1, {"no/s.json", "directory"});
  expect_rejected("train --summary .", 1, {"\".\""});
}

TEST_F(BadInput, LeavesOldFilesWhenTheDiskIsFull) {
  child_options full;
  full.file_limit = 100'000;
  const auto words =
    "train --data digits:70 --epochs 1 --quiet --save m.troupe";
  expect_rejected(words, 1, {"m.troupe", "File too large"}, full);
  put("m.troupe", "what was there before");
  expect_rejected(words, 1, {"m.troupe", "File too large"}, full);
  EXPECT_EQ(text_of("m.troupe"), "what was there before");
}

TEST_F(BadInput, NamesStandardOutputThatIsFull) {
  ASSERT_EQ(
    troupe("train --data digits:70 --epochs 1 --quiet --save m.troupe").code,
    0);
  child_options full;
  full.out_file = "/dev/full";
  expect_rejected("predict --model m.troupe --data digits:70", 1,
                  {"standard output"}, full);
  for (const auto* words : {"models", "models mlp", "--help", "--version",
                            "train --data digits:70 --epochs 1"}) {
    const auto done = troupe(words, full);
    EXPECT_EQ(done.code, 1) << words;
    EXPECT_NE(done.err.find("cannot write to standard output"), done.err.npos)
      << words << ": " << done.err;
  }
  expect_rejected(
    "predict --model m.troupe --data digits:70 --output /dev/full", 1,
    {"/dev/full", "No space left"});
}

TEST_F(BadInput, StopsAtANanLossUnlessToldToSkip) {
  const std::string words = "train --data digits:350 --epochs 2 --quiet "
                            "--optimizer sgd --learning-rate 1e30";
  expect_rejected(words, 1,
                  {"at step", "smaller learning rate", "--on-nan skip"});
  EXPECT_EQ(troupe(words + " --on-nan skip --log off").code, 0);
  const auto shown = troupe("train --data digits:350 --epochs 2 --log off "
                            "--optimizer sgd --learning-rate 1e30 "
                            "--on-nan skip");
  EXPECT_EQ(shown.code, 0);
  EXPECT_EQ((shown.out + shown.err).find("nan"), std::string::npos)
    << shown.out << shown.err;
}

TEST_F(BadInput, IsATrainingWithoutAnUpdate) {
  put("inf.json", R"({"version": 1, "name": "m", "input": [1],
    "layers": [{"type": "dense", "units": 1}]})");
  std::string table = "a,price\n";
  for (int i = 0; i < 40; ++i)
    table += "3e38," + std::to_string(i % 3) + "\n";
  put("t.csv", table);
  for (const std::string servers : {"", " --workers 1 --servers 1"}) {
    const auto done = troupe("train --model inf.json --data csv:t.csv:price "
                             "--loss mean_squared_error --epochs 2 --batch 4 "
                             "--on-nan skip --summary s.json"
                             + servers);
    EXPECT_EQ(done.code, 1) << done.err;
    for (const auto* said :
         {"loss is not finite", "no step of epoch 2 has made its update",
          "no step of the run has made its update"})
      EXPECT_NE(done.err.find(said), std::string::npos) << done.err;
    EXPECT_EQ(done.err.find("loss 0.0"), std::string::npos) << done.err;
    const auto summary = nlohmann::json::parse(text_of("s.json"));
    EXPECT_TRUE(summary.at("train_loss").is_null()) << summary;
  }
}

TEST_F(BadInput, IsALearningRateThatMakesInfiniteWeights) {
  const std::string words = "train --model mlp --data digits:350 --batch 300 "
                            "--epochs 1 --quiet --save m.troupe";
  for (const std::string servers : {"", " --workers 1 --servers 1"}) {
    ASSERT_EQ(troupe(words + servers).code, 0);
    const auto good = text_of("m.troupe");
    const auto done = troupe(words + servers + " --learning-rate 3e38");
    EXPECT_EQ(done.code, 1) << done.err;
    EXPECT_NE(done.err.find("/kernel\" are not finite after 1 step"),
              std::string::npos)
      << done.err;
    EXPECT_EQ(text_of("m.troupe"), good);
  }
}

TEST_F(BadInput, IsAScheduleWhoseRateOverflows) {
  const auto words = std::string{"train --data digits:350 --epochs 1 --quiet "
                                 "--schedule step:every=1,factor=1e30 "};
  expect_rejected(words + "--optimizer sgd --save m.troupe", 2,
                  {"no finite learning rate"});
}

TEST_F(BadInput, IsAMonitorThatTheRunLacks) {
  const std::string words = "train --data digits:70 --epochs 1 --quiet ";
  expect_rejected(words + "--monitor loss", 2,
                  {"--monitor loss", "give --patience too"});
  const auto all = "which this fit does not have; it has loss, accuracy, "
                   "validation_loss, validation_accuracy";
  for (const std::string more : {"", "--workers 2 "})
    expect_rejected(words + more + "--patience 1 --monitor validation_auc", 2,
                    {"--monitor validation_auc: early stopping monitors "
                     "\"validation_auc\"",
                     all});
  expect_rejected(words + "--patience 1 --monitor accurcy", 2,
                  {"did you mean \"accuracy\"?"});
  EXPECT_EQ(troupe(words + "--patience 1 --monitor validation_accuracy").code,
            0);
}

TEST_F(BadInput, IsAnInputWhoseOutputIsNotFinite) {
  put("m.json", R"({"version": 1, "name": "m", "input": [2],
    "layers": [{"type": "dense", "units": 3}]})");
  put("t.csv", "a,b,kind\n1,0,0\n0,1,1\n1,1,2\n0,0,1\n1,0,0\n");
  EXPECT_EQ(troupe("train --model m.json --data csv:t.csv --quiet --epochs 1 "
                   "--batch 2 --save m.troupe")
              .code,
            0);
  put("u.csv", "a,b\n1,0\n3e38,-3e38\n");
  expect_rejected("predict --model m.troupe --data csv:u.csv:", 1,
                  {"for example 1 is not finite"});
  put("v.csv", "a,b,kind\n1,0,0\n3e38,-3e38,1\n");
  for (const std::string more : {"", " --json", " --output e.json"})
    expect_rejected("evaluate --model m.troupe --data csv:v.csv --split all"
                      + more,
                    1, {"the loss of the model on csv:v.csv is not finite"});
}

TEST_F(BadInput, HasHelpWithExamples) {
  const auto tool = troupe("--help");
  EXPECT_EQ(tool.code, 0);
  EXPECT_NE(tool.out.find("Examples:"), std::string::npos);
  const auto train = troupe("train --help");
  EXPECT_EQ(train.code, 0);
  EXPECT_NE(train.out.find("troupe train --resume"), std::string::npos);
  EXPECT_NE(troupe("--version").out.find("0.2"), std::string::npos);
}

TEST_F(BadInput, HasHelpWithTheExamplesOfEachCommand) {
  for (const std::string command :
       {"train", "evaluate", "predict", "models", "devices", "launch", "cert",
        "node", "status", "explain"}) {
    SCOPED_TRACE(command);
    const auto help = troupe(command + " --help").out;
    const auto examples = help.find("xamples:\n");
    ASSERT_NE(examples, help.npos) << help;
    EXPECT_EQ(help.find("  troupe " + command, examples), examples + 9) << help;
    EXPECT_EQ(help.find("troupe explain troupe-flight") != help.npos,
              command == "explain");
  }
  const auto train = troupe("train --help").out;
  for (const std::string group :
       {"Model and data", "Training", "Devices and processes",
        "Parameter servers", "Files and output", "Faults"})
    EXPECT_NE(train.find("\n" + group + ":\n"), train.npos) << train;
}

TEST_F(BadInput, IsNotAModelThatTheToolLists) {
  const auto all = troupe("models");
  EXPECT_NE(all.out.find("lenet\n"), std::string::npos);
  EXPECT_NE(troupe("models mlp").out.find("669,706"), std::string::npos);
  put("m.json", troupe("models mlp --json").out);
  EXPECT_EQ(troupe("models m.json").code, 0);
}

TEST_F(BadInput, IsNotADeviceThatTheToolLists) {
  const auto all = troupe("devices");
  EXPECT_EQ(all.code, 0);
  EXPECT_EQ(all.out.find("cpu:0  processor 1 of "), 0u) << all.out;
  EXPECT_EQ(all.out.find("cuda:0 ") == all.out.npos,
            all.err.starts_with("no CUDA devices: "))
    << all.err;
  expect_rejected(
    "devices cpu:0", 2,
    {"cpu:0: this argument was not expected", "troupe devices --help"});
  expect_rejected(
    "train --devcies cpu:0 --epochs 1", 2,
    {"--devcies: there is no such option", "troupe train --help"});
}

} // namespace
