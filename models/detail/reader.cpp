#include "troupe/models/detail/json.hpp"
#include "troupe/models/detail/names.hpp"
#include "troupe/models/layer.hpp"

#include <algorithm>
#include <charconv>
#include <stdexcept>

namespace troupe::models::detail {

namespace {

/// Maximum number of layers in one list.
constexpr std::size_t most_layers = 1000;

std::string text_of(double x) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, x).ptr;
  return {digits, end};
}

std::string wanted_integer(const integer_rule& rule) {
  return "an integer from " + std::to_string(rule.low) + " to "
         + std::to_string(rule.high);
}

/// Stores `x` in `out` if it is an integer that the rule allows.
/// @returns true if it is stored.
bool take(const json& x, const integer_rule& rule, std::int64_t& out) {
  if (!x.is_number_integer())
    return false;
  if (x.is_number_unsigned()
      && x.get<std::uint64_t>() > std::uint64_t{INT64_MAX})
    return false;
  const auto value = x.get<std::int64_t>();
  if (value < rule.low || value > rule.high)
    return false;
  out = value;
  return true;
}

} // namespace

reader::reader(const json& object, std::string where, std::string path,
               std::string kind, std::size_t depth)
  : object_{&object},
    where_{std::move(where)},
    path_{std::move(path)},
    kind_{std::move(kind)},
    depth_{depth} {}

std::string reader::path_of(std::string_view key) const {
  return (path_.empty() ? "" : path_ + ".") + std::string{key};
}

void reader::refuse(std::string_view key, const std::string& why) const {
  throw std::invalid_argument(where_ + ": " + path_of(key) + " " + why);
}

void reader::refuse_value(std::string_view key, const json& x,
                          const std::string& wanted) const {
  refuse(key, "is " + shown(x) + "; it must be " + wanted);
}

const json* reader::find(std::string_view key, bool required,
                         const std::string& wanted) {
  known_.emplace_back(key);
  if (const auto at = object_->find(key); at != object_->end())
    return &*at;
  if (!required)
    return nullptr;
  // A misspelt key is more likely than a missing one.
  const std::array wanted_key{std::string{key}};
  for (const auto& [given, value] : object_->items())
    if (given != "name" && nearest(given, wanted_key) == key)
      refuse(key, "is missing; was " + in_quotes(given) + " meant? " + kind_
                    + " needs " + wanted);
  refuse(key, "is missing; " + kind_ + " needs it: " + wanted);
}

void reader::flag(std::string_view key, bool& x) {
  const std::string wanted = "true or false";
  const auto* at = find(key, false, wanted);
  if (at && !at->is_boolean())
    refuse_value(key, *at, wanted);
  if (at)
    x = at->get<bool>();
}

void reader::integer(std::string_view key, std::int64_t& x,
                     const integer_rule& rule) {
  const auto wanted = wanted_integer(rule);
  const auto* at = find(key, rule.required, wanted);
  if (at && !take(*at, rule, x))
    refuse_value(key, *at, wanted);
}

void reader::real(std::string_view key, double& x, const real_rule& rule) {
  const auto wanted = "a number, at least " + text_of(rule.low)
                      + " and less than " + text_of(rule.below);
  const auto* at = find(key, rule.required, wanted);
  if (!at)
    return;
  if (!at->is_number())
    refuse_value(key, *at, wanted);
  const auto value = at->get<double>();
  if (!(value >= rule.low && value < rule.below))
    refuse_value(key, *at, wanted);
  x = value;
}

void reader::pair(std::string_view key, std::array<std::int64_t, 2>& x,
                  const integer_rule& rule) {
  const auto wanted =
    wanted_integer(rule) + ", or a list of two of them, height and width";
  const auto* at = find(key, rule.required, wanted);
  if (!at)
    return;
  if (at->is_array()) {
    if (at->size() != 2 || !take((*at)[0], rule, x[0])
        || !take((*at)[1], rule, x[1]))
      refuse_value(key, *at, wanted);
  } else {
    if (!take(*at, rule, x[0]))
      refuse_value(key, *at, wanted);
    x[1] = x[0];
  }
}

void reader::text(std::string_view key, std::string& x,
                  std::span<const std::string> names) {
  const auto wanted = "one of " + joined(names);
  const auto* at = find(key, false, wanted);
  if (!at)
    return;
  if (!at->is_string())
    refuse_value(key, *at, wanted);
  const auto& given = at->get_ref<const std::string&>();
  if (std::ranges::find(names, given) == names.end())
    refuse(key, "is " + in_quotes(given) + ";" + guess(given, names)
                  + " it must be " + wanted);
  x = given;
}

void reader::initial(std::string_view key, initializer& x) {
  if (const auto* at = find(key, false, ""))
    x = initializer_of(key, *at);
}

initializer reader::initializer_of(std::string_view key, const json& x) const {
  const auto& names = initializer_names();
  const auto* name = &x;
  named_numbers numbers;
  if (x.is_object()) {
    if (!x.contains("name"))
      refuse(key, "has no name; it must be one of " + joined(names));
    name = &x["name"];
    for (const auto& [number, value] : x.items()) {
      if (number == "name")
        continue;
      if (!is_name(number) || !value.is_number())
        refuse(key, "has " + in_quotes(number) + ": " + shown(value)
                      + "; all other settings of an initializer are numbers");
      numbers.push_back({number, value.get<double>()});
    }
  }
  if (!name->is_string())
    refuse_value(key, *name,
                 "the name of an initializer or an object that "
                 "has a name and numbers");
  const auto& given = name->get_ref<const std::string&>();
  if (std::ranges::find(names, given) == names.end())
    refuse(key, "is " + in_quotes(given) + ";" + guess(given, names)
                  + " it must be one of " + joined(names));
  try {
    return initializer{given, numbers};
  } catch (const std::invalid_argument& e) {
    refuse(key, std::string{"is invalid: "} + e.what());
  }
}

void reader::name(std::string_view key, std::string& x, bool required) {
  const std::string wanted{name_rule};
  const auto* at = find(key, required, wanted);
  if (!at)
    return;
  if (!at->is_string() || !is_name(at->get_ref<const std::string&>()))
    refuse_value(key, *at, wanted);
  x = at->get<std::string>();
}

void reader::integers(std::string_view key, std::vector<std::int64_t>& x,
                      std::size_t least, std::size_t most) {
  const auto wanted = "a list of " + std::to_string(least) + " to "
                      + std::to_string(most) + " numbers, each "
                      + wanted_integer({});
  const auto* at = find(key, true, wanted);
  if (!at->is_array() || at->size() < least || at->size() > most)
    refuse_value(key, *at, wanted);
  x.assign(at->size(), 0);
  for (std::size_t i = 0; i < x.size(); ++i)
    if (!take((*at)[i], {}, x[i]))
      refuse_value(key, *at, wanted);
}

void reader::layers(std::string_view key, layer_list& x) {
  const std::string wanted = "a list of 1 to " + std::to_string(most_layers)
                             + " layers, each like {\"type\": \"flatten\"}";
  const auto* at = find(key, true, wanted);
  if (!at->is_array() || at->empty() || at->size() > most_layers)
    refuse_value(key, *at, wanted);
  if (depth_ > deepest_nesting)
    refuse(key, "is nested in more than " + std::to_string(deepest_nesting)
                  + " layers; nest layers less deeply");
  x.clear();
  for (std::size_t i = 0; i < at->size(); ++i)
    x.push_back(
      layer_at((*at)[i], path_of(key) + "[" + std::to_string(i) + "]"));
}

layer_ptr reader::layer_at(const json& x, const std::string& path) const {
  const auto fail = [&](const std::string& why) {
    throw std::invalid_argument(where_ + ": " + path + why);
  };
  if (!x.is_object())
    fail(" is " + shown(x) + "; it must be a layer, {\"type\": ...}");
  const auto types = layer_types();
  const auto type = x.find("type");
  if (type == x.end())
    fail(".type is missing; it must be one of " + joined(types));
  if (!type->is_string())
    fail(".type is " + shown(*type) + "; it must be one of " + joined(types));
  const auto& given = type->get_ref<const std::string&>();
  auto made = make_layer(given);
  if (!made)
    fail(".type is " + in_quotes(given) + ", which is not a layer type;"
         + guess(given, types) + " it must be one of " + joined(types)
         + ", or a type added by register_layer");
  reader inner{x, where_, path, "a " + given + " layer", depth_ + 1};
  inner.known_.emplace_back("type");
  inner.name("name", made->name, false);
  made->list(inner);
  inner.finish();
  return made;
}

void reader::finish() const {
  for (const auto& [key, value] : object_->items())
    if (std::ranges::find(known_, key) == known_.end())
      throw std::invalid_argument(
        where_ + ": " + (path_.empty() ? "" : path_ + ": ") + in_quotes(key)
        + " is not a setting of " + kind_ + ";" + guess(key, known_)
        + " it has " + joined(known_));
}

} // namespace troupe::models::detail
