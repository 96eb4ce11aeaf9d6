#include "troupe/data/sources/criteo.hpp"
#include "troupe/tests/support/scratch.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

namespace troupe::data {
namespace {

/// Returns a line with the given fields and, in all others, the integer 0 or
/// the category 0.
std::string line(const std::string& label,
                 const std::string& first_number = "0",
                 const std::string& last_number = "0",
                 const std::string& first_category = "0",
                 const std::string& last_category = "0") {
  auto text = label + "\t" + first_number;
  for (int i = 2; i <= 12; ++i)
    text += "\t0";
  text += "\t" + last_number + "\t" + first_category;
  for (int i = 2; i <= 25; ++i)
    text += "\t0";
  return text + "\t" + last_category;
}

/// Hash of a category, by the definition of fmix32 with 64-bit arithmetic.
std::int32_t row_of(std::uint64_t x, std::uint64_t rows) {
  const std::uint64_t mask = 0xFFFF'FFFF;
  x ^= x >> 16;
  x = x * 0x85EB'CA6B & mask;
  x ^= x >> 13;
  x = x * 0xC2B2'AE35 & mask;
  x ^= x >> 16;
  return std::int32_t(1 + x % (rows - 1));
}

class Criteo : public scratch_test {
protected:
  batch read(const std::string& text, const criteo_options& options = {}) {
    put("t.txt", text);
    const auto x = criteo(folder / "t.txt", options);
    return x.examples(0, *x.size());
  }

  /// Returns the error message for a file t.txt with this text, without the
  /// name of the folder.
  std::string says(const std::string& text,
                   const criteo_options& options = {}) {
    try {
      read(text, options);
    } catch (const std::exception& e) {
      std::string out{e.what()};
      if (const auto at = out.find(folder.string()); at != out.npos)
        out.replace(at, folder.string().size() + 1, "");
      return out;
    }
    return "no error";
  }
};

TEST_F(Criteo, ReadsLabelsNumbersAndCategories) {
  const auto x = read(line("1", "3", "-2", "68fd1e64", "FFFFFFFF") + "\n"
                      + line("0", "", "1382", "", "0") + "\n");
  EXPECT_EQ(x.inputs.dims(), (shape{2, 13}));
  EXPECT_TRUE(same_bits(x.labels, tensor::of<float>({2, 1}, {1, 0})));
  const auto numbers = x.inputs.data<float>();
  std::vector<float> wanted(26);
  wanted[0] = float(std::log(4.0)); // 3; the last one is -2, which counts as 0
  wanted[25] = float(std::log(1383.0));
  for (std::size_t i = 0; i < wanted.size(); ++i)
    EXPECT_FLOAT_EQ(numbers[i], wanted[i]) << i;
  const auto& categories = x["categories"];
  EXPECT_EQ(categories.spec(), (tensor_spec{{2, 26}, dtype::int32}));
  const auto rows = categories.data<std::int32_t>();
  for (std::size_t i = 0; i < rows.size(); ++i)
    EXPECT_EQ(rows[i], i == 0    ? row_of(0x68FD'1E64, 100'000)
                       : i == 25 ? row_of(0xFFFF'FFFF, 100'000)
                       : i == 26 ? 0
                                 : row_of(0, 100'000))
      << i;
}

TEST_F(Criteo, CategoriesAreHashedToTheRows) {
  std::string text;
  for (int i = 0; i < 500; ++i) {
    char digits[9];
    std::snprintf(digits, sizeof digits, "%x", unsigned(i) * 7919u);
    text += line("0", "1", "1", digits) + "\n";
  }
  const auto x = read(text, {.rows = 8});
  std::vector<int> counts(8);
  for (std::size_t i = 0; i < 500; ++i) {
    const auto row = x["categories"].data<std::int32_t>()[26 * i];
    EXPECT_EQ(row, row_of(std::uint64_t(unsigned(i) * 7919u), 8));
    ++counts.at(std::size_t(row));
  }
  EXPECT_EQ(counts[0], 0); // only for empty fields
  for (std::size_t i = 1; i < 8; ++i)
    EXPECT_GT(counts[i], 30);
}

TEST_F(Criteo, ReadsEquivalentFilesAlike) {
  const auto a = line("1", "5"), b = line("0", "7");
  const auto wanted = read(a + "\n" + b + "\n");
  for (const auto& text :
       {a + "\n" + b, a + "\r\n" + b + "\r\n", a + "\n" + b + "\n\n\r\n\n"}) {
    const auto x = read(text);
    EXPECT_TRUE(same_bits(x.inputs, wanted.inputs));
    EXPECT_TRUE(same_bits(x.labels, wanted.labels));
    EXPECT_TRUE(same_bits(x["categories"], wanted["categories"]));
  }
}

TEST_F(Criteo, LinesWithoutLabelsAreReadForPredictions) {
  const auto labelled = line("1", "5");
  const auto bare = labelled.substr(2);
  for (const auto& text : {labelled, bare}) {
    const auto x = read(text + "\n", {.labelled = false});
    EXPECT_FALSE(x.labels);
    EXPECT_TRUE(same_bits(x.inputs, read(labelled).inputs));
  }
  EXPECT_EQ(says(bare + "\n"),
            "t.txt, line 1: 39 fields, but a line has 40, separated by tabs: "
            "the label, I1 to I13 and C1 to C26");
}

TEST_F(Criteo, ErrorsNameLineColumnAndValue) {
  const auto good = line("0") + "\n";
  EXPECT_EQ(says(good + line("2")), "t.txt, line 2, column label: \"2\" is not "
                                    "a label: give 1 for a click, or 0");
  EXPECT_EQ(says(line("")), "t.txt, line 1, column label: \"\" is not a label: "
                            "give 1 for a click, or 0");
  for (const auto* bad : {"1.5", "x", "+1", " 1", "1 ", "--1", "1e3"})
    EXPECT_EQ(says(good + good + line("0", bad)),
              std::string{"t.txt, line 3, column I1: \""} + bad
                + "\" is not an integer: write it with digits, or leave the "
                  "field empty");
  EXPECT_EQ(says(line("0", "0", "99999999999999999999")),
            "t.txt, line 1, column I13: \"99999999999999999999\" does not fit "
            "64 bits");
  for (const auto* bad : {"xyz", "0x1", "-1", "123456789", "00000000a", "1 "})
    EXPECT_EQ(says(good + line("0", "0", "0", "0", bad)),
              std::string{"t.txt, line 2, column C26: \""} + bad
                + "\" is not a category: write 1 to 8 hexadecimal digits, or "
                  "leave the field empty");
  EXPECT_EQ(says(good + line("0") + "\t1\n"),
            "t.txt, line 2: 41 fields, but a line has 40, separated by tabs: "
            "the label, I1 to I13 and C1 to C26");
  EXPECT_EQ(says(good + "\n" + good),
            "t.txt, line 2: the line is blank: remove it");
  EXPECT_EQ(says("x"), "t.txt, line 1: 1 field, but a line has 40, separated "
                       "by tabs: the label, I1 to I13 and C1 to C26");
  EXPECT_EQ(says(""), "t.txt is empty: a line for each example is needed");
  EXPECT_EQ(says("\n\n"), "t.txt is empty: a line for each example is needed");
}

TEST_F(Criteo, RejectsNumbersOfRows) {
  for (const std::int64_t rows : {-1, 0, 1, (1 << 24) + 1})
    EXPECT_EQ(says(line("0"), {.rows = rows}),
              "categories that are hashed to " + std::to_string(rows)
                + " rows: give a number from 2 to 16777216");
  EXPECT_EQ(says(line("0"), {.rows = 2}), "no error");
}

/// Each mutated file is read, or rejected with a sentence that names it.
TEST_F(Criteo, SurvivesMutatedFiles) {
  const auto good =
    line("1", "3", "-2", "68fd1e64", "ffffffff") + "\n" + line("0") + "\n";
  std::mt19937 rng{3};
  int rejected = 0;
  for (int i = 0; i < 2'000; ++i) {
    auto text = good;
    for (auto edits = 1 + rng() % 3; edits > 0; --edits) {
      const auto at = rng() % text.size();
      switch (rng() % 3) {
        case 0:
          text[at] = char(rng() % 256);
          break;
        case 1:
          text.erase(at, 1 + rng() % 5);
          break;
        default:
          text.insert(at, 1, "\t\n0a-\r"[rng() % 6]);
      }
      if (text.empty())
        text = "0";
    }
    try {
      const auto x = read(text);
      for (const auto row : x["categories"].data<std::int32_t>())
        ASSERT_TRUE(row >= 0 && row < 100'000);
      for (const auto number : x.inputs.data<float>())
        ASSERT_TRUE(std::isfinite(number) && number >= 0);
    } catch (const std::runtime_error& e) {
      ASSERT_NE(std::string{e.what()}.find("t.txt"), std::string::npos);
      ++rejected;
    }
  }
  EXPECT_GT(rejected, 500);
  EXPECT_LT(rejected, 2'000);
}

} // namespace
} // namespace troupe::data
