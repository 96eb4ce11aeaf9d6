#include "troupe/models/detail/json.hpp"

#include "troupe/models/detail/names.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>

namespace troupe::models::detail {

namespace {

/// Returns the position of the byte at `offset`: "line 3, column 7".
std::string line_and_column(std::string_view text, std::size_t offset) {
  const auto before = text.substr(0, std::min(offset, text.size()));
  const auto line = 1 + std::ranges::count(before, '\n');
  const auto start = before.rfind('\n') + 1; // npos + 1 is 0
  return "line " + std::to_string(line) + ", column "
         + std::to_string(before.size() - start + 1);
}

/// Formats a value on one line.
std::string inline_text(const json& node) {
  std::string text;
  if (node.is_object()) {
    for (const auto& [key, value] : node.items())
      text += (text.empty() ? "" : ", ") + json(key).dump() + ": "
              + inline_text(value);
    return "{" + text + "}";
  }
  if (!node.is_array())
    return node.dump();
  for (const auto& value : node)
    text += (text.empty() ? "" : ", ") + inline_text(value);
  return "[" + text + "]";
}

bool holds_objects(const json& x) {
  return std::ranges::any_of(x, [](const json& value) {
    return value.is_object() || (value.is_array() && holds_objects(value));
  });
}

/// Formats a value as `pretty` describes. All lines after the first begin with
/// `indent`.
std::string lines(const json& node, const std::string& indent) {
  if (!node.is_structured() || !holds_objects(node))
    return inline_text(node);
  std::string text;
  for (const auto& [key, value] : node.items())
    text += (text.empty() ? "" : ",") + ("\n" + indent) + "  "
            + (node.is_object() ? json(key).dump() + ": " : "")
            + lines(value, indent + "  ");
  return (node.is_object() ? "{" : "[") + text + "\n" + indent
         + (node.is_object() ? "}" : "]");
}

} // namespace

json parse_json(std::string_view text, std::string_view source) {
  const auto fail = [&](const std::string& why) {
    throw std::invalid_argument(std::string{source} + ": " + why);
  };
  if (text.size() > max_text_bytes)
    fail("more than " + std::to_string(max_text_bytes)
         + " bytes; a model's description is shorter");
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, json::parse_event_t event, json& value) {
    if (depth > max_bracket_depth)
      fail("brackets are nested more than " + std::to_string(max_bracket_depth)
           + " deep; nest layers less deeply");
    if (event == json::parse_event_t::object_start)
      keys.emplace_back();
    if (event == json::parse_event_t::object_end)
      keys.pop_back();
    if (event == json::parse_event_t::key) {
      const auto& key = value.get_ref<const std::string&>();
      if (!keys.back().insert(key).second)
        fail("the key " + in_quotes(key) + " occurs twice in one object; "
             + "remove one");
    }
    return true;
  };
  try {
    return json::parse(text, check);
  } catch (const json::parse_error& e) {
    fail(line_and_column(text, e.byte > 0 ? e.byte - 1 : 0)
         + ": this is not JSON; fix it there or just before");
  } catch (const json::exception&) { // A number exceeds the range of double.
    fail("a number is too large; it must be below 1e308");
  }
  return {};
}

std::string pretty(const json& x) {
  return lines(x, "") + "\n";
}

std::string abbreviated(const json& node) {
  if (node.is_string())
    return in_quotes(node.get_ref<const std::string&>());
  if (node.is_object())
    return "an object";
  if (node.is_array() && node.size() > 8)
    return "a list of " + std::to_string(node.size());
  if (node.is_array() && std::ranges::any_of(node, [](const json& value) {
        return !value.is_number();
      }))
    return node.empty() ? "[]" : "a list of other things than numbers";
  return inline_text(node);
}

} // namespace troupe::models::detail
