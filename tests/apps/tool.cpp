#include "tool.hpp"

#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>
#include <vector>

namespace troupe {

outcome tool_test::troupe(const std::string& words,
                          child_options options) const {
  std::vector<std::string> command{TROUPE_TOOL};
  std::istringstream input{words};
  for (std::string word; input >> word;)
    command.push_back(word == "''" ? "" : word);
  if (options.folder.empty())
    options.folder = folder;
  return run_child(command, options);
}

nlohmann::json tool_test::summary_of(const std::string& words) const {
  const auto done = troupe(words + " --quiet --summary summary.json");
  EXPECT_EQ(done.code, 0) << done.err;
  return nlohmann::json::parse(text_of("summary.json"), nullptr, false);
}

std::string tool_test::weights_of(const std::string& words) const {
  return summary_of(words).value("weights_sha256", "none");
}

void tool_test::expect_rejected(const std::string& words, int code,
                                std::initializer_list<const char*> expected,
                                child_options options) const {
  SCOPED_TRACE(words);
  const auto before = files();
  const auto done = troupe(words, std::move(options));
  EXPECT_EQ(done.code, code) << done.err;
  EXPECT_EQ(done.out, "");
  for (const auto* text : expected)
    EXPECT_NE(done.err.find(text), std::string::npos) << done.err;
  EXPECT_EQ(files(), before);
}

} // namespace troupe
