#include "troupe/actors/core/log.hpp"
#include "troupe/tests/support/error_text.hpp"
#include "troupe/tests/support/scratch.hpp"
#include "troupe/training/job/data_source.hpp"

#include <gtest/gtest.h>

namespace {

using namespace troupe;

class DataSource : public scratch_test {
protected:
  std::string open_error(const std::string& name) {
    try {
      open_data(name);
    } catch (const std::exception& e) {
      return e.what();
    }
    return "no error";
  }
};

TEST_F(DataSource, DrawsTheGivenNumberOfDigits) {
  const auto x = open_data("digits:70");
  EXPECT_EQ(x.train.size(), 60u);
  EXPECT_EQ(x.test.size(), 10u);
  EXPECT_EQ(open_to_predict("digits:70").size(), 10u);
}

TEST_F(DataSource, SplitOfATableIsRandomButReproducible) {
  std::string text = "a,kind,b\n";
  for (int i = 0; i < 50; ++i)
    text += std::to_string(i) + "," + std::to_string(i / 25) + ",0\n";
  put("t.csv", text);
  const auto name = "csv:" + (folder / "t.csv").string();
  const auto x = open_data(name + ":kind"), again = open_data(name + ":kind");
  EXPECT_EQ(x.train.size(), 40u);
  EXPECT_EQ(x.test.size(), 10u);
  const auto test = x.test.examples(0, 10);
  EXPECT_TRUE(same_bits(test.inputs, again.test.examples(0, 10).inputs));
  // The table is sorted by label, but the test rows contain both labels.
  int ones = 0;
  for (const auto label : test.labels.data<std::int32_t>())
    ones += label;
  EXPECT_GT(ones, 0);
  EXPECT_LT(ones, 10);
  EXPECT_EQ(open_to_predict(name).size(), 50u);
}

TEST_F(DataSource, ALossOfValuesReadsNumbersFromTheColumn) {
  put("t.csv", "a,price,b\n1,2.5,3\n4,-5,6\n7,8,9\n1,1,1\n2,2,2\n");
  const auto name = "csv:" + (folder / "t.csv").string();
  const auto named =
    open_data(name + ":price", models::target_kind::values).train;
  EXPECT_EQ(named.classes(), 0);
  EXPECT_EQ(named.batch(4).spec().at(1),
            (data::named_spec{"labels", {{4, 1}, dtype::float32}}));
  const auto last = open_data(name, models::target_kind::values).train;
  EXPECT_EQ(last.element().dims, (shape{2}));
  EXPECT_THROW(open_data(name + ":price"), std::runtime_error);
  EXPECT_NE(open_error(name + ":").find("has no label column"),
            std::string::npos);
}

TEST_F(DataSource, APredictionReadsNoLabel) {
  put("t.csv", "a,kind,b\n1,rose,3\n4,,6\n");
  const auto name = "csv:" + (folder / "t.csv").string();
  const auto x = open_to_predict(name + ":kind").examples(0, 2);
  EXPECT_TRUE(same_bits(x.inputs, tensor::of<float>({2, 2}, {1, 3, 4, 6})));
  EXPECT_FALSE(x.labels);
  put("u.csv", "a,b\n1,2\n");
  const auto whole = "csv:" + (folder / "u.csv").string();
  EXPECT_EQ(open_to_predict(whole + ":").element().dims, (shape{2}));
  EXPECT_EQ(open_to_predict(whole).element().dims, (shape{1}));
}

TEST_F(DataSource, FindsTheColumnsOfATableByTheirNames) {
  put("t.csv", "a,b,kind\n1,2,0\n3,4,1\n5,6,0\n7,8,1\n9,10,0\n");
  put("u.csv", "kind,id,b,a\n0,9,2,1\n1,9,4,3\n0,9,6,5\n1,9,8,7\n0,9,10,9\n");
  const auto name = [&](const char* file) {
    return "csv:" + (folder / file).string();
  };
  const auto classes = models::target_kind::classes;
  const auto all = [](const opened_data& x) { return x.train.examples(0, 4); };
  const auto x = open_data(name("t.csv"));
  EXPECT_EQ(x.columns.inputs, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(x.columns.labels, (std::vector<std::string>{"kind"}));
  const auto y = open_data(name("u.csv"), classes, x.columns);
  EXPECT_EQ(y.columns.inputs, x.columns.inputs);
  EXPECT_TRUE(same_bits(all(y).inputs, all(x).inputs));
  EXPECT_TRUE(same_bits(all(y).labels, all(x).labels));
  // Without the names, the last column is the label.
  EXPECT_FALSE(same_bits(all(open_data(name("u.csv"))).inputs, all(x).inputs));
  const auto predicted = open_to_predict(name("t.csv"), x.columns.inputs);
  for (const auto* form : {"", ":", ":kind"})
    EXPECT_TRUE(
      same_bits(open_to_predict(name("u.csv") + form, x.columns.inputs)
                  .examples(0, 5)
                  .inputs,
                predicted.examples(0, 5).inputs));
  put("v.csv", "x,y,kind\n1,2,0\n");
  const auto error = [&](const std::string& form) {
    return test::text_of([&] { open_to_predict(form, x.columns.inputs); });
  };
  EXPECT_EQ(error(name("v.csv")),
            (folder / "v.csv").string()
              + " has no column \"a\" for the inputs: there are \"x\", \"y\", "
                "\"kind\"");
  EXPECT_NE(error(name("t.csv") + ":b")
              .find("\"b\" cannot be an input and a "
                    "label"),
            std::string::npos);
}

TEST_F(DataSource, DrawsTheGivenNumberOfClicks) {
  const auto x = open_data("clicks:70");
  EXPECT_EQ(x.train.size(), 60u);
  EXPECT_EQ(x.test.size(), 10u);
  EXPECT_EQ(x.test.batch(10).spec().at(2),
            (data::named_spec{"categories", {{10, 26}, dtype::int32}}));
  EXPECT_TRUE(same_bits(x.test.examples(0, 10).inputs,
                        open_to_predict("clicks:70").examples(0, 10).inputs));
}

TEST_F(DataSource, ReadsTheFormatOfCriteo) {
  std::string features, text;
  for (int i = 0; i < 39; ++i)
    features += "\t1";
  for (int i = 0; i < 50; ++i)
    text += std::to_string(i / 25) + features + "\n";
  put("t.txt", text);
  const auto name = "criteo:" + (folder / "t.txt").string();
  const auto x = open_data(name, models::target_kind::values);
  EXPECT_EQ(x.train.size(), 40u);
  EXPECT_EQ(x.test.size(), 10u);
  // The file is sorted by label, but the test examples contain both labels.
  float clicks = 0;
  const auto test = x.test.examples(0, 10);
  for (const auto label : test.labels.data<float>())
    clicks += label;
  EXPECT_GT(clicks, 0);
  EXPECT_LT(clicks, 10);
  EXPECT_EQ(open_to_predict(name).size(), 50u);
  EXPECT_FALSE(open_to_predict(name).examples(0, 1).labels);
}

TEST_F(DataSource, ClicksHaveALossOfTheirOwn) {
  for (const auto* name : {"clicks", "clicks:70", "criteo:t.txt"})
    EXPECT_EQ(default_loss(name), "binary_cross_entropy");
  for (const auto* name : {"digits", "csv:clicks", "mnist:criteo", ""})
    EXPECT_EQ(default_loss(name), "softmax_cross_entropy");
}

TEST_F(DataSource, AHeaderOfNumbersIsLogged) {
  put("t.csv", "5.1,3.5\n1,2\n");
  std::vector<std::string> lines;
  log_to([&](log_level, std::string_view line) { lines.emplace_back(line); });
  open_to_predict("csv:" + (folder / "t.csv").string());
  log_to({});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("the names of all columns are numbers"),
            std::string::npos);
}

TEST_F(DataSource, ReadsImagesWithoutLabels) {
  put("i.idx",
      std::string{"\0\0\x08\x03\0\0\0\x01\0\0\0\x01\0\0\0\x02\0\xff", 18});
  const auto x = open_to_predict("idx:" + (folder / "i.idx").string());
  const auto all = x.examples(0, 1);
  EXPECT_EQ(all.inputs.dims(), (shape{1, 1, 2, 1}));
  EXPECT_EQ(all.inputs.data<float>()[1], 1.0f);
}

TEST_F(DataSource, ErrorsNameValidForms) {
  for (const auto* name :
       {"", "imagenet", "digit", "mnist", "csv:", "digits:", "digits:x",
        "digits:6", "digits:99999999999", "csv:/none.csv",
        "csv:/none.csv:label", "mnist:/no", "idx:x", "clicks:", "clicks:6",
        "criteo", "criteo:", "criteo:/none"}) {
    const auto said = open_error(name);
    EXPECT_NE(said, "no error") << name;
    EXPECT_EQ(said.find('\n'), said.npos) << said;
  }
  EXPECT_NE(open_error("digit").find("give digits"), std::string::npos);
  EXPECT_NE(open_error("csv:/none.csv").find("/none.csv"), std::string::npos);
  EXPECT_EQ(open_error("clicks:6"),
            "data \"clicks:6\" needs a number of examples from 7 to 16777216; "
            "write clicks:70000");
}

} // namespace
