#include "troupe/apps/troupe/launcher/self_command.hpp"

#include <filesystem>
#include <fstream>
#include <stdexcept>

std::vector<std::string> self_command() {
  std::ifstream input{"/proc/self/cmdline"};
  std::vector<std::string> words;
  for (std::string word; std::getline(input, word, '\0');)
    words.push_back(word);
  if (words.empty())
    throw std::runtime_error("cannot read /proc/self/cmdline, which is "
                             "needed to start the workers");
  words.front() = std::filesystem::read_symlink("/proc/self/exe").string();
  return words;
}
