// `<target> FOLDER` tries the seeds and every file of the folder, as a whole
// and truncated.
#include "troupe/tests/fuzz/fuzz.hpp"

#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

namespace fs = std::filesystem;
using namespace troupe::fuzz;

namespace {

constexpr std::size_t most_cuts = 64;

bytes content(const fs::path& name) {
  std::ifstream file{name, std::ios::binary};
  const std::vector<char> all{std::istreambuf_iterator<char>{file}, {}};
  if (!file.is_open())
    throw std::runtime_error{"cannot read " + name.string()};
  bytes x;
  append(x, std::as_bytes(std::span{all}));
  return x;
}

void try_with_cuts(const bytes& x) {
  // The input is copied, so that a sanitizer detects reads beyond its end.
  const auto cut_at = [&](std::size_t size) {
    const bytes some{x.begin(), x.begin() + static_cast<std::ptrdiff_t>(size)};
    try_one(some);
  };
  cut_at(x.size());
  const auto stride = x.size() / most_cuts + 1;
  for (std::size_t size = 0; size < x.size(); size += stride)
    cut_at(size);
}

} // namespace

int main(int count, char** values) {
  if (count != 2) {
    std::cerr << "usage: " << values[0] << " FOLDER\n";
    return 2;
  }
  const auto first = seeds();
  for (const auto& x : first)
    try_with_cuts(x);
  std::size_t files = 0;
  for (const auto& entry : fs::directory_iterator{values[1]}) {
    std::cerr << entry.path().filename().string() << '\n';
    try_with_cuts(content(entry.path()));
    ++files;
  }
  std::cout << first.size() << " seeds and " << files << " inputs replayed\n";
  return first.empty() || files == 0 ? 1 : 0;
}
