#include "troupe/net/cluster/survivors_question.hpp"

#include <algorithm>
#include <array>
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
  std::string out;
  const auto add = [&out](std::string_view word) {
    out += out.empty() ? "" : " ";
    out += word;
  };
  for (const auto x : question.living)
    add(std::to_string(x));
  for (const auto* list : {&question.members, &question.left}) {
    add(separator);
    for (const auto x : *list)
      add(std::to_string(x));
  }
  return out;
}

std::optional<survivors_question>
parse_survivors_question(std::string_view words) {
  survivors_question out;
  const std::array lists{&out.living, &out.members, &out.left};
  std::size_t list = 0;
  for (auto word = take_word(words); !word.empty(); word = take_word(words)) {
    if (word == separator) {
      if (++list == lists.size())
        return {};
      continue;
    }
    lists[list]->push_back(number_of(word));
    if (lists[list]->back() == 0)
      return {};
  }
  if (list + 1 != lists.size())
    return {};
  return out;
}

survivors_ruling rule_on(const survivors_question& question,
                         std::uint64_t asker,
                         std::span<const launched_process> all) {
  survivors_ruling out;
  std::size_t named = 1; // with the one that asks
  for (const auto& x : all) {
    const auto is_in = [&x](const auto& numbers) {
      return std::ranges::find(numbers, x.number) != numbers.end();
    };
    if (x.number == asker || x.has_left || is_in(question.left))
      continue;
    if (is_in(question.living))
      ++named;
    else if (x.has_begun || is_in(question.members))
      out.unreachable.push_back(x.number);
    else
      out.starting.push_back(x.number);
  }
  if (out.unreachable.size() > named)
    return {.unreachable = {}, .starting = {}, .is_minority = true};
  return out;
}

} // namespace troupe::net
