#include "troupe/apps/troupe/base/option_parsing.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <stdexcept>

namespace {

namespace fs = std::filesystem;

[[noreturn]] void reject(const std::string& option, const std::string& text,
                         const std::string& reason) {
  throw std::invalid_argument(option + " " + (text.empty() ? "\"\"" : text)
                              + ": " + reason);
}

/// Returns true if the whole text is a number that `T` can hold.
template <class T>
bool parse_number(const std::string& text, T& value) {
  const auto* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  return error == std::errc{} && end == last;
}

bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  if (fs::exists(a, ignored) && fs::exists(b, ignored))
    return fs::equivalent(a, b, ignored) && fs::is_regular_file(a, ignored);
  return fs::weakly_canonical(fs::absolute(a), ignored)
         == fs::weakly_canonical(fs::absolute(b), ignored);
}

} // namespace

std::uint64_t parse_integer(const std::string& option, const std::string& text,
                            std::uint64_t min, std::uint64_t max) {
  std::uint64_t value = 0;
  if (!parse_number(text, value) || value < min || value > max)
    reject(option, text,
           "give a number from " + std::to_string(min) + " to "
             + std::to_string(max));
  return value;
}

double parse_real(const std::string& option, const std::string& text) {
  double value = 0;
  if (!parse_number(text, value))
    reject(option, text, "give a number, as in 0.001");
  return value;
}

std::string parse_file_name(const std::string& option,
                            const std::string& text) {
  if (text.empty())
    reject(option, text, "name a file");
  return text;
}

std::vector<std::string> parse_list(const std::string& option,
                                    const std::string& text,
                                    const std::string& example) {
  std::vector<std::string> items;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(',', begin), text.size());
    items.push_back(text.substr(begin, end - begin));
    if (items.back().empty())
      reject(option, text, "a name is empty; give names as in " + example);
    begin = end + 1;
  }
  return items;
}

void require_distinct(const std::string& option, const std::string& file,
                      const std::string& other_option,
                      const std::string& other_file) {
  if (!file.empty() && !other_file.empty() && is_same_file(file, other_file))
    reject(option, file,
           "this is also the file of " + other_option + "; name another one");
}
