#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>

namespace {

namespace fs = std::filesystem;

/// Collects all headers that a header of this project includes, directly or
/// through other headers of this project.
void follow(const std::string& header, std::set<std::string>& seen) {
  std::ifstream in{fs::path{TROUPE_SOURCE_DIR} / header};
  ASSERT_TRUE(in) << header;
  const std::regex include{R"(^\s*#\s*include\s*[<"]([^>"]+)[>"].*)"};
  std::smatch found;
  for (std::string line; std::getline(in, line);)
    if (std::regex_match(line, found, include) && seen.insert(found[1]).second
        && found[1].str().starts_with("troupe/"))
      follow(found[1].str().substr(std::string{"troupe/"}.size()), seen);
}

TEST(PublicHeader, IncludesNoOtherLibrary) {
  std::set<std::string> all;
  follow("troupe.hpp", all);
  EXPECT_GT(all.size(), 40u);
  EXPECT_TRUE(all.contains("troupe/training/model.hpp"));
  for (const auto& one : all)
    for (const auto* hidden :
         {"caf/", "boost/", "cereal/", "nlohmann/", "dnnl", "oneapi/", "Eigen/",
          "spdlog/", "openssl/", "CLI/"})
      EXPECT_FALSE(one.starts_with(hidden)) << one;
}

} // namespace
