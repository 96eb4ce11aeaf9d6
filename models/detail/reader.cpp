#include "troupe/models/detail/json.hpp"
#include "troupe/models/detail/names.hpp"
#include "troupe/models/layer.hpp"

#include <algorithm>
#include <charconv>
#include <stdexcept>

namespace troupe::models::detail {

namespace {

/// Maximum number of layers in one list.
constexpr std::size_t max_layers = 1000;

std::string text_of(double x) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, x).ptr;
  return {digits, end};
}

std::string wanted_integer(const integer_rule& rule) {
  return "an integer from " + std::to_string(rule.low) + " to "
         + std::to_string(rule.high);
}

/// Stores `node` in `out` if `node` is an integer that the rule allows.
/// @returns true if `out` was set.
bool take(const json& node, const integer_rule& rule, std::int64_t& out) {
  if (!node.is_number_integer())
    return false;
  if (node.is_number_unsigned()
      && node.get<std::uint64_t>() > std::uint64_t{INT64_MAX})
    return false;
  const auto value = node.get<std::int64_t>();
  if (value < rule.low || value > rule.high)
    return false;
  out = value;
  return true;
}

} // namespace

reader::reader(const json& object, std::string source, std::string path,
               std::string kind, std::size_t depth)
  : object_{&object},
    source_{std::move(source)},
    path_{std::move(path)},
    kind_{std::move(kind)},
    depth_{depth} {}

std::string reader::path_of(std::string_view key) const {
  return (path_.empty() ? "" : path_ + ".") + std::string{key};
}

void reader::refuse(std::string_view key, const std::string& reason) const {
  throw std::invalid_argument(source_ + ": " + path_of(key) + " " + reason);
}

std::string reader::unknown_setting(std::string_view key,
                                    std::span<const std::string> known) const {
  return source_ + ": " + (path_.empty() ? "" : path_ + ": ") + in_quotes(key)
         + " is not a setting of " + kind_ + ";" + guess(key, known);
}

void reader::refuse_value(std::string_view key, const json& x,
                          const std::string& wanted) const {
  refuse(key, "is " + abbreviated(x) + "; it must be " + wanted);
}

const json* reader::find(std::string_view key, bool required,
                         const std::string& wanted) {
  known_.emplace_back(key);
  if (const auto at = object_->find(key); at != object_->end())
    return &*at;
  if (!required)
    return nullptr;
  // The user may have misspelt the key.
  const std::array wanted_key{std::string{key}};
  for (const auto& [given, value] : object_->items())
    if (given != "name" && nearest(given, wanted_key) == key)
      throw std::invalid_argument(unknown_setting(given, wanted_key)
                                  + " it needs " + std::string{key} + ": "
                                  + wanted);
  refuse(key, "is missing; " + kind_ + " needs it: " + wanted);
}

void reader::flag(std::string_view key, bool& setting) {
  const std::string wanted = "true or false";
  const auto* found = find(key, false, wanted);
  if (found && !found->is_boolean())
    refuse_value(key, *found, wanted);
  if (found)
    setting = found->get<bool>();
}

void reader::integer(std::string_view key, std::int64_t& setting,
                     const integer_rule& rule) {
  const auto wanted = wanted_integer(rule);
  const auto* found = find(key, rule.required, wanted);
  if (found && !take(*found, rule, setting))
    refuse_value(key, *found, wanted);
}

void reader::real(std::string_view key, double& setting,
                  const real_rule& rule) {
  const auto wanted = "a number, at least " + text_of(rule.low)
                      + " and less than " + text_of(rule.below);
  const auto* found = find(key, rule.required, wanted);
  if (!found)
    return;
  if (!found->is_number())
    refuse_value(key, *found, wanted);
  const auto value = found->get<double>();
  if (!(value >= rule.low && value < rule.below))
    refuse_value(key, *found, wanted);
  setting = value;
}

void reader::pair(std::string_view key, std::array<std::int64_t, 2>& setting,
                  const integer_rule& rule) {
  const auto wanted =
    wanted_integer(rule) + ", or a list of two of them, height and width";
  const auto* found = find(key, rule.required, wanted);
  if (!found)
    return;
  if (found->is_array()) {
    if (found->size() != 2 || !take((*found)[0], rule, setting[0])
        || !take((*found)[1], rule, setting[1]))
      refuse_value(key, *found, wanted);
  } else {
    if (!take(*found, rule, setting[0]))
      refuse_value(key, *found, wanted);
    setting[1] = setting[0];
  }
}

void reader::text(std::string_view key, std::string& setting,
                  std::span<const std::string> names) {
  const auto wanted = "one of " + joined(names);
  const auto* found = find(key, false, wanted);
  if (!found)
    return;
  if (!found->is_string())
    refuse_value(key, *found, wanted);
  const auto& selected = found->get_ref<const std::string&>();
  if (std::ranges::find(names, selected) == names.end())
    refuse(key, "is " + in_quotes(selected) + ";" + guess(selected, names)
                  + " it must be " + wanted);
  setting = selected;
}

void reader::initial(std::string_view key, initializer& setting) {
  if (const auto* at = find(key, false, ""))
    setting = initializer_of(key, *at);
}

initializer reader::initializer_of(std::string_view key,
                                   const json& node) const {
  const auto& names = initializer_names();
  const auto* name = &node;
  hyperparameters numbers;
  if (node.is_object()) {
    if (!node.contains("name"))
      refuse(key, "has no name; it must be one of " + joined(names));
    name = &node["name"];
    for (const auto& [number, value] : node.items()) {
      if (number == "name")
        continue;
      if (!is_name(number) || !value.is_number())
        refuse(key, "has " + in_quotes(number) + ": " + abbreviated(value)
                      + "; all other settings of an initializer are numbers");
      numbers.push_back({number, value.get<double>()});
    }
  }
  if (!name->is_string())
    refuse_value(key, *name,
                 "the name of an initializer or an object that "
                 "has a name and numbers");
  const auto& initializer_name = name->get_ref<const std::string&>();
  if (std::ranges::find(names, initializer_name) == names.end())
    refuse(key, "is " + in_quotes(initializer_name) + ";"
                  + guess(initializer_name, names) + " it must be one of "
                  + joined(names));
  try {
    return initializer{initializer_name, numbers};
  } catch (const std::invalid_argument& e) {
    refuse(key, std::string{"is invalid: "} + e.what());
  }
}

void reader::name(std::string_view key, std::string& setting, bool required) {
  const std::string wanted{name_rule};
  const auto* found = find(key, required, wanted);
  if (!found)
    return;
  if (!found->is_string() || !is_name(found->get_ref<const std::string&>()))
    refuse_value(key, *found, wanted);
  setting = found->get<std::string>();
}

void reader::integers(std::string_view key, std::vector<std::int64_t>& setting,
                      std::size_t min_count, std::size_t max_count) {
  const auto wanted = "a list of " + std::to_string(min_count) + " to "
                      + std::to_string(max_count) + " numbers, each "
                      + wanted_integer({});
  const auto* found = find(key, true, wanted);
  if (!found->is_array() || found->size() < min_count
      || found->size() > max_count)
    refuse_value(key, *found, wanted);
  setting.assign(found->size(), 0);
  for (std::size_t i = 0; i < setting.size(); ++i)
    if (!take((*found)[i], {}, setting[i]))
      refuse_value(key, *found, wanted);
}

void reader::layers(std::string_view key, layer_list& setting) {
  const std::string wanted = "a list of 1 to " + std::to_string(max_layers)
                             + " layers, each like {\"type\": \"flatten\"}";
  const auto* found = find(key, true, wanted);
  if (!found->is_array() || found->empty() || found->size() > max_layers)
    refuse_value(key, *found, wanted);
  if (depth_ > max_nesting_depth)
    refuse(key, "is nested in more than " + std::to_string(max_nesting_depth)
                  + " layers; nest layers less deeply");
  setting.clear();
  for (std::size_t i = 0; i < found->size(); ++i)
    setting.push_back(
      layer_at((*found)[i], path_of(key) + "[" + std::to_string(i) + "]"));
}

layer_ptr reader::layer_at(const json& node, const std::string& path) const {
  const auto fail = [&](const std::string& why) {
    throw std::invalid_argument(source_ + ": " + path + why);
  };
  if (!node.is_object())
    fail(" is " + abbreviated(node) + "; it must be a layer, {\"type\": ...}");
  const auto types = layer_types();
  const auto type = node.find("type");
  if (type == node.end())
    fail(".type is missing; it must be one of " + joined(types));
  if (!type->is_string())
    fail(".type is " + abbreviated(*type) + "; it must be one of "
         + joined(types));
  const auto& type_name = type->get_ref<const std::string&>();
  auto made = make_layer(type_name);
  if (!made)
    fail(".type is " + in_quotes(type_name) + ", which is not a layer type;"
         + guess(type_name, types) + " it must be one of " + joined(types)
         + ", or a type added by register_layer");
  reader inner{node, source_, path, "a " + type_name + " layer", depth_ + 1};
  inner.known_.emplace_back("type");
  inner.name("name", made->name, false);
  made->visit_settings(inner);
  inner.finish();
  return made;
}

void reader::finish() const {
  for (const auto& [key, value] : object_->items())
    if (std::ranges::find(known_, key) == known_.end())
      throw std::invalid_argument(unknown_setting(key, known_) + " it has "
                                  + joined(known_));
}

} // namespace troupe::models::detail
