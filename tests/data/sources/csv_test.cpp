#include "troupe/data/sources/csv.hpp"
#include "troupe/tests/data/counted.hpp"
#include "troupe/tests/support/scratch.hpp"

#include <gtest/gtest.h>

#include <random>
#include <stdexcept>
#include <string>
#include <vector>

// The mistakes S0 to S9 are listed in
// tests/training/loop/fit/new_user_results_test.cpp.

namespace troupe::data {
namespace {

using testing::complaint;

class Csv : public scratch_test {
protected:
  batch read(std::string_view text, const csv_options& options = {}) {
    put("t.csv", text);
    const auto x = csv(folder / "t.csv", options);
    classes = x.classes();
    return x.examples(0, *x.size());
  }

  /// Returns the error message for a file t.csv with this text, without the
  /// name of the folder.
  std::string says(std::string_view text, const csv_options& options = {}) {
    auto out = complaint([&] { read(text, options); });
    if (const auto at = out.find(folder.string()); at != out.npos)
      out.replace(at, folder.string().size() + 1, "");
    return out;
  }

  std::int64_t classes = 0;
};

const auto two_inputs = tensor::of<float>({2, 2}, {1.5f, -2, 3e2f, .25f});
const auto two_labels = tensor::of<std::int32_t>({2}, {0, 2});

void expect_two(const batch& x) {
  EXPECT_TRUE(same_bits(x.inputs, two_inputs));
  EXPECT_TRUE(same_bits(x.labels, two_labels));
}

TEST_F(Csv, TheLabelIsTheLastColumnByDefault) {
  expect_two(read("a,b,c\n1.5,-2,0\n3e2,.25,2\n"));
  EXPECT_EQ(classes, 3);
  expect_two(read("a,kind,b\n1.5,0,-2\n3e2,2,.25\n", {.label = "kind"}));
  read("a,c\n1,0\n", {.classes = 7});
  EXPECT_EQ(classes, 7);
}

TEST_F(Csv, ReadsEquivalentFilesAlike) {
  expect_two(read("a,b,c\r\n1.5,-2,0\r\n3e2,.25,2\r\n"));
  expect_two(read("a,b,c\n1.5,-2,0\n3e2,.25,2"));
  expect_two(read("a,b,c\r\n1.5,-2,0\r\n3e2,.25,2\r"));
  expect_two(read("a,b,c\n1.5,-2,0\n3e2,.25,2\n\n\r\n\n"));
  expect_two(read("\xEF\xBB\xBF"
                  "a,b,c\n1.5,-2,0\n3e2,.25,2\n"));
  expect_two(read("a , b,\tc\n 1.5,-2 ,0\n3e2, .25 ,2\n"));
  expect_two(read("\"a\",\"b\",\"c\"\n\"1.5\",-2,\"0\"\n3e2,\".25\",2\n"));
}

TEST_F(Csv, ReadsNumbersAsOtherProgramsWriteThem) {
  const auto x = read("a,b\r+1.5,0.0\r1e-46,1.0\r-1e-400,+1\r"
                      "0.00000000000000000000000000000000000000000000000000001,"
                      "1e0\r");
  EXPECT_TRUE(same_bits(x.inputs, tensor::of<float>({4, 1}, {1.5f, 0, 0, 0})));
  EXPECT_TRUE(same_bits(x.labels, tensor::of<std::int32_t>({4}, {0, 1, 1, 1})));
  EXPECT_EQ(read("a,b\n1e-999999999999999999999,0\n").inputs.data<float>()[0],
            0);
  for (const auto* wrong : {"+-1", "++1", "+", "-+1"})
    EXPECT_EQ(says("a,b\n" + std::string{wrong} + ",0\n"),
              "t.csv, line 2, column \"a\": \"" + std::string{wrong}
                + "\" is not a number: write it with digits and a decimal "
                  "point");
  for (const auto* large :
       {"1e400", "+1e39", "-1e999999999999999999999", "0.01e400",
        "1000000000000000000000000000000000000"
        "000"})
    EXPECT_EQ(says("a,b\n" + std::string{large} + ",0\n"),
              "t.csv, line 2, column \"a\": \"" + std::string{large}
                + "\" does not fit a float32: scale the column");
}

TEST_F(Csv, S6ClassesWithoutAnExampleAreWarnedAbout) {
  std::vector<std::string> warnings;
  const auto warn = [&](const std::string& text) {
    warnings.push_back(text.substr(text.find("t.csv")));
  };
  read("a,b\n1,1\n2,3\n3,2\n", {.warn = warn});
  EXPECT_EQ(classes, 4);
  read("a,b\n1,0\n2,7\n3,1\n", {.warn = warn});
  EXPECT_EQ(classes, 8);
  EXPECT_EQ(warnings,
            (std::vector<std::string>{
              "t.csv: the labels are those of 4 classes, from 0 on, but class "
              "0 has no example; number the classes from 0 on, without a gap",
              "t.csv: the labels are those of 8 classes, from 0 on, but 5 "
              "classes have no example, the first is class 2; number the "
              "classes from 0 on, without a gap"}));
  warnings.clear();
  read("a,b\n1,1\n2,0\n", {.warn = warn});
  read("a,b\n1,1\n2,3\n", {.classes = 4, .warn = warn});
  read("a,b\n1,1\n2,3\n", {.targets = {"b"}, .warn = warn});
  EXPECT_EQ(warnings, std::vector<std::string>{});
}

TEST_F(Csv, S7InputColumnsOfOneNameAreRejected) {
  EXPECT_EQ(says("a,b,a,kind\n1,2,3,0\n"),
            "t.csv has two columns \"a\": give each a name of its own, or "
            "remove one");
  EXPECT_NE(says("a, a,y\n1,2,3\n", {.targets = {"y"}}), "");
  EXPECT_NE(says("a,a\n1,2\n", {.labelled = false}), "");
}

TEST_F(Csv, QuotedNamesMayContainCommasQuotesAndLineEnds) {
  expect_two(read("a,\"the \"\"kind\"\",\nsay\",b\n1.5,0,-2\n3e2,2,.25\n",
                  {.label = "the \"kind\",\nsay"}));
  EXPECT_EQ(
    says("\"a\n\n\",b\n1,x\n"),
    "t.csv, line 4, column \"b\": \"x\" is not a class number: labels are "
    "0, 1, 2, ...; to learn numbers, name the column in "
    "csv_options::targets, in the tool --loss mean_squared_error");
}

TEST_F(Csv, ErrorsNameLineColumnAndValue) {
  EXPECT_EQ(
    says("a,b,c\n1,2,0\n1,x y,0\n"),
    "t.csv, line 3, column \"b\": \"x y\" is not a number: write it with "
    "digits and a decimal point");
  EXPECT_EQ(says("a,b\n1e99,0\n"), "t.csv, line 2, column \"a\": \"1e99\" does "
                                   "not fit a float32: scale the column");
  EXPECT_EQ(says("a,b\nnan,0\n"), "t.csv, line 2, column \"a\": \"nan\" is not "
                                  "finite: leave the line out");
  EXPECT_EQ(says("a,b\n,0\n"), "t.csv, line 2, column \"a\": the field is "
                               "empty: fill it in, or leave the line out");
  EXPECT_EQ(says("a,b\n1,0\n1,0,2\n"),
            "t.csv, line 3: 3 fields, but the header names 2 columns");
  EXPECT_EQ(says("a,b\n1,0\n\n1,0\n"),
            "t.csv, line 3: the line is blank: remove it");
}

TEST_F(Csv, RejectsLabelsThatAreNoClass) {
  EXPECT_EQ(says("a,b\n1,1.5\n"),
            "t.csv, line 2, column \"b\": \"1.5\" is not a "
            "class number: labels are 0, 1, 2, ...; to learn numbers, name the "
            "column in csv_options::targets, in the tool --loss "
            "mean_squared_error");
  EXPECT_EQ(says("a,b\n1,-1\n"), "t.csv, line 2, column \"b\": label \"-1\" is "
                                 "not in [0, 65536): number the classes from 0 "
                                 "on");
  EXPECT_EQ(says("a,b\n1,3\n", {.classes = 3}),
            "t.csv, line 2, column \"b\": label \"3\" is not in [0, 3): number "
            "the classes from 0 on");
  EXPECT_NE(says("a,b\n1,65536\n"), "");
  EXPECT_NE(says("a,b\n1,99999999999999999999\n"), "");
}

TEST_F(Csv, TargetsAreNumbersInTheOrderOfTheOptions) {
  const auto text = "y,a,z,b\n-1.5,1,10,2\n2.5,3,20,4\n";
  const auto inputs = tensor::of<float>({2, 2}, {1, 2, 3, 4});
  const auto both = read(text, {.targets = {"z", "y"}});
  EXPECT_TRUE(same_bits(both.inputs, inputs));
  EXPECT_TRUE(
    same_bits(both.labels, tensor::of<float>({2, 2}, {10, -1.5f, 20, 2.5f})));
  EXPECT_EQ(classes, 0);
  const auto last = read(text, {.targets = {""}});
  EXPECT_TRUE(same_bits(last.labels, tensor::of<float>({2, 1}, {2, 4})));
  EXPECT_EQ(last.inputs.dims(), (shape{2, 3}));
  EXPECT_EQ(
    says(text, {.targets = {"x"}}),
    "t.csv has no column \"x\" for the targets: there are \"y\", \"a\", "
    "\"z\", \"b\"");
  EXPECT_EQ(says("a,y\n1,x\n", {.targets = {"y"}}),
            "t.csv, line 2, column \"y\": \"x\" is not a number: write it with "
            "digits and a decimal point");
  EXPECT_EQ(says("a,y\n1,2\n", {.targets = {"a", "y"}}),
            "t.csv has no column that is an input: an example needs at least "
            "one number");
  EXPECT_EQ(
    says("a,y\n1,2\n", {.classes = 2, .targets = {"y"}}),
    "2 classes: a table without class labels has none; leave the number "
    "out");
}

TEST_F(Csv, ATableMayHaveNoLabels) {
  const auto x = read("a,b\n1,2\n3,4\n", {.labelled = false});
  EXPECT_TRUE(same_bits(x.inputs, tensor::of<float>({2, 2}, {1, 2, 3, 4})));
  EXPECT_FALSE(x.labels);
  EXPECT_EQ(read("a\n1\n", {.labelled = false}).inputs.dims(), (shape{1, 1}));
}

TEST_F(Csv, IgnoredColumnsAreNotParsed) {
  const auto x = read("name,a,kind\nAnna,1.5,\nBert,2,rose\n",
                      {.labelled = false, .ignored = {"name", ""}});
  EXPECT_TRUE(same_bits(x.inputs, tensor::of<float>({2, 1}, {1.5f, 2})));
  EXPECT_EQ(says("a,b\n1,2\n", {.ignored = {"c"}}),
            "t.csv has no column \"c\" to ignore: there are \"a\", \"b\"");
}

TEST_F(Csv, InputsAreReadInTheOrderOfTheirNames) {
  const auto x = read("kind,b,note,a\n1,2,x,3\n0,4,y,5\n",
                      {.label = "kind", .inputs = {"a", "b"}});
  EXPECT_TRUE(same_bits(x.inputs, tensor::of<float>({2, 2}, {3, 2, 5, 4})));
  EXPECT_TRUE(same_bits(x.labels, tensor::of<std::int32_t>({2}, {1, 0})));
  const auto table =
    read_csv(folder / "t.csv", {.label = "kind", .inputs = {"b"}});
  EXPECT_EQ(table.inputs, (std::vector<std::string>{"b"}));
  EXPECT_EQ(table.labels, (std::vector<std::string>{"kind"}));
  EXPECT_EQ(says("a,b,kind\n1,2,0\n", {.inputs = {"a", "c"}}),
            "t.csv has no column \"c\" for the inputs: there are \"a\", \"b\", "
            "\"kind\"");
  EXPECT_EQ(says("a,b,kind\n1,2,0\n", {.inputs = {"a", "a"}}),
            "t.csv: the column \"a\" is an input twice; name it once");
  EXPECT_EQ(says("a,b,kind\n1,2,0\n", {.inputs = {"a", "kind"}}),
            "t.csv: the column \"kind\" cannot be an input and a label; name "
            "another column of labels");
}

TEST_F(Csv, NamesOfColumnsAreThoseOfTheOrder) {
  put("t.csv", "a,b,c,d\n1,2,3,4\n");
  const auto x =
    read_csv(folder / "t.csv", {.targets = {"c", "a"}, .ignored = {"b"}});
  EXPECT_EQ(x.inputs, (std::vector<std::string>{"d"}));
  EXPECT_EQ(x.labels, (std::vector<std::string>{"c", "a"}));
  EXPECT_TRUE(read_csv(folder / "t.csv", {.labelled = false}).labels.empty());
}

TEST_F(Csv, AHeaderOfNumbersIsWarnedAbout) {
  std::vector<std::string> warnings;
  const auto warn = [&](const std::string& text) { warnings.push_back(text); };
  read("a,1,2\n1,2,0\n", {.warn = warn});
  EXPECT_TRUE(warnings.empty());
  read("5.1,-2,0\n1,2,0\n", {.warn = warn});
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(warnings[0].ends_with(
    "t.csv, line 1: the names of all columns are numbers, such as \"5.1\"; if "
    "this line is an example, insert a line with the columns' names before it"))
    << warnings[0];
}

TEST_F(Csv, AnUnknownColumnIsReportedWithAllColumns) {
  EXPECT_EQ(says("a,b,c\n1,2,0\n", {.label = "d"}),
            "t.csv has no column \"d\" for the labels: there are \"a\", \"b\", "
            "\"c\"");
  std::string many = "x0";
  for (int i = 1; i < 30; ++i)
    many += ",x" + std::to_string(i);
  EXPECT_TRUE(says(many, {.label = "y"}).ends_with("\"x19\" and 10 more"));
  EXPECT_EQ(says("a,b,a\n1,2,0\n", {.label = "a"}),
            "t.csv has 2 columns \"a\": give the label column a unique name");
  EXPECT_EQ(says("a;b\n1;0\n"), "t.csv has one column, \"a;b\": an example "
                                "needs a label and at least one number, "
                                "separated by commas");
}

TEST_F(Csv, RejectsFilesWithoutExamples) {
  EXPECT_EQ(says(""),
            "t.csv is empty: a line with the columns' names and lines "
            "with examples are needed");
  EXPECT_EQ(says("\n\n"), says(""));
  EXPECT_EQ(says("a,b\n"), "t.csv holds no example: lines must follow the one "
                           "with the columns' names");
  EXPECT_EQ(says("\x1f\x8b\b"), "t.csv is compressed: decompress it (gunzip)");
  EXPECT_EQ(complaint([&] { csv(folder); }),
            folder.string() + " is a folder: give a file in it");
}

TEST_F(Csv, RejectsUnbalancedQuotes) {
  EXPECT_EQ(says("a,b\n1,0\n\"2,0\n"),
            "t.csv, line 3: a quote is never closed");
  EXPECT_EQ(says("a,b\n\"1\"2,0\n"),
            "t.csv, line 2: a quoted field is followed by something other than "
            "a comma: write a quote within quotes twice");
}

TEST_F(Csv, ErrorsContainNoControlCharactersAndNoLongValues) {
  EXPECT_EQ(
    says(std::string("a,b\n\0\x1b[2J,0\n", 12)),
    "t.csv, line 2, column \"a\": \"??[2J\" is not a number: write it with "
    "digits and a decimal point");
  EXPECT_LT(says("a,b\n" + std::string(100'000, 'x') + ",0\n").size(), 200u);
}

TEST_F(Csv, AnyBytesAreReadOrRejectedInOneSentence) {
  const std::string valid = "a,\"b\"\"c\",d\r\n1.5,\"-2\",0\r\n3e2,.25,2\r\n";
  const std::string_view likely = "\",\r\n0.e-\xEF\0x";
  for (std::size_t size = 0; size < valid.size(); ++size)
    says(valid.substr(0, size));
  std::size_t refused = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    std::mt19937_64 rng{seed};
    auto text = valid;
    for (auto changes = 1 + rng() % 4; changes > 0; --changes)
      switch (const auto offset = rng() % text.size(); rng() % 3) {
        case 0:
          text[offset] = likely[rng() % likely.size()];
          break;
        case 1:
          text.insert(offset, 1, likely[rng() % likely.size()]);
          break;
        default:
          text.erase(offset, 1);
      }
    try {
      const auto x = read(text);
      EXPECT_EQ(x.inputs.dims().front(), x.labels.dims().front());
    } catch (const std::runtime_error& x) {
      EXPECT_EQ(std::string{x.what()}.find('\n'), std::string::npos)
        << "seed " << seed << ": " << x.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, 200u);
}

} // namespace
} // namespace troupe::data
