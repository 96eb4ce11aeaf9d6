#include "troupe/models/description.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

namespace {

TEST(ModelsPage, ShowsADescriptionThatIsRead) {
  std::ifstream in{TROUPE_SOURCE_DIR "/docs/models.md"};
  const std::string page{std::istreambuf_iterator<char>{in}, {}};
  const auto at = page.find("```json\n");
  ASSERT_NE(at, std::string::npos);
  const auto shown = page.substr(at + 8, page.find("```", at + 8) - at - 8);
  EXPECT_EQ(troupe::models::parse(shown, "page").name, "small");
}

} // namespace
