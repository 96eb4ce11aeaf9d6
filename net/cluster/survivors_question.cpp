#include "troupe/net/cluster/survivors_question.hpp"

#include <algorithm>
#include <charconv>

namespace troupe::net {

namespace {

constexpr std::string_view separator = "/";

/// Takes the first word from a text. Empty: there is none.
std::string_view take_word(std::string_view& text) {
  const auto begin = std::min(text.find_first_not_of(' '), text.size());
  text.remove_prefix(begin);
  const auto word = text.substr(0, text.find(' '));
  text.remove_prefix(word.size());
  return word;
}

/// Reads a number above zero. Zero: the word is none.
std::uint64_t number_of(std::string_view word) {
  std::uint64_t out = 0;
  const auto [end, error] =
    std::from_chars(word.data(), word.data() + word.size(), out);
  return error == std::errc{} && end == word.data() + word.size() ? out : 0;
}

} // namespace

std::string to_words(const survivors_question& question) {
  auto out = std::to_string(question.number);
  for (const auto x : question.living)
    out += ' ' + std::to_string(x);
  out += ' ';
  out += separator;
  for (const auto x : question.members)
    out += ' ' + std::to_string(x);
  return out;
}

std::optional<survivors_question>
parse_survivors_question(std::string_view words) {
  survivors_question out;
  out.number = number_of(take_word(words));
  if (out.number == 0)
    return {};
  auto* list = &out.living;
  for (auto word = take_word(words); !word.empty(); word = take_word(words)) {
    if (word == separator && list == &out.living) {
      list = &out.members;
      continue;
    }
    list->push_back(number_of(word));
    if (list->back() == 0)
      return {};
  }
  if (list == &out.living)
    return {};
  return out;
}

} // namespace troupe::net
