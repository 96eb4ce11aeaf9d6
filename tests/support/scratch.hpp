#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

namespace troupe {

/// A test with an empty temporary folder, which is removed when the test ends.
class scratch_test : public ::testing::Test {
protected:
  scratch_test() {
    auto name =
      (std::filesystem::temp_directory_path() / "troupe.XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw std::runtime_error("no folder for temporary files");
    folder = name;
  }
  ~scratch_test() override {
    std::error_code none;
    std::filesystem::remove_all(folder, none);
  }

  void put(std::string_view name, std::string_view text) const {
    std::ofstream{folder / name, std::ios::binary} << text;
  }

  std::string text_of(std::string_view name) const {
    std::ifstream in{folder / name, std::ios::binary};
    return {std::istreambuf_iterator<char>{in}, {}};
  }

  /// Number of files in the folder, including hidden files.
  std::size_t files() const {
    using it = std::filesystem::directory_iterator;
    return static_cast<std::size_t>(std::distance(it{folder}, it{}));
  }

  std::filesystem::path folder;
};

} // namespace troupe
