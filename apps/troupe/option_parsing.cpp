#include "option_parsing.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <stdexcept>

namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& option, const std::string& text,
                         const std::string& why) {
  throw std::invalid_argument(option + " " + (text.empty() ? "\"\"" : text)
                              + ": " + why);
}

/// @returns true if the whole text is a number that `to` can hold.
template <class T>
bool read(const std::string& text, T& to) {
  const auto* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, to);
  return error == std::errc{} && end == last;
}

bool are_one_file(const fs::path& a, const fs::path& b) {
  std::error_code none;
  if (fs::exists(a, none) && fs::exists(b, none))
    return fs::equivalent(a, b, none) && fs::is_regular_file(a, none);
  return fs::weakly_canonical(fs::absolute(a), none)
         == fs::weakly_canonical(fs::absolute(b), none);
}

} // namespace

std::uint64_t whole_number(const std::string& option, const std::string& text,
                           std::uint64_t least, std::uint64_t most) {
  std::uint64_t x = 0;
  if (!read(text, x) || x < least || x > most)
    refuse(option, text,
           "give a number from " + std::to_string(least) + " to "
             + std::to_string(most));
  return x;
}

double real_number(const std::string& option, const std::string& text) {
  double x = 0;
  if (!read(text, x))
    refuse(option, text, "give a number, as in 0.001");
  return x;
}

std::string file_name(const std::string& option, const std::string& text) {
  if (text.empty())
    refuse(option, text, "name a file");
  return text;
}

std::vector<std::string> names(const std::string& option,
                               const std::string& text,
                               const std::string& example) {
  std::vector<std::string> all;
  for (std::size_t at = 0; at <= text.size();) {
    const auto end = std::min(text.find(',', at), text.size());
    all.push_back(text.substr(at, end - at));
    if (all.back().empty())
      refuse(option, text, "a name is empty; give names as in " + example);
    at = end + 1;
  }
  return all;
}

void check_differ(const std::string& option, const std::string& file,
                  const std::string& other, const std::string& other_file) {
  if (!file.empty() && !other_file.empty() && are_one_file(file, other_file))
    refuse(option, file,
           "this is also the file of " + other + "; name another one");
}
