#include "troupe/models/detail/json.hpp"
#include "troupe/models/layer.hpp"

#include <stdexcept>

namespace troupe::models::detail {

void writer::flag(std::string_view key, bool& x) {
  object[std::string{key}] = x;
}

void writer::integer(std::string_view key, std::int64_t& x,
                     const integer_rule&) {
  object[std::string{key}] = x;
}

void writer::real(std::string_view key, double& x, const real_rule&) {
  object[std::string{key}] = x;
}

void writer::pair(std::string_view key, std::array<std::int64_t, 2>& x,
                  const integer_rule&) {
  object[std::string{key}] = x;
}

void writer::text(std::string_view key, std::string& x,
                  std::span<const std::string>) {
  object[std::string{key}] = x;
}

void writer::initial(std::string_view key, initializer& setting) {
  const auto numbers = setting.numbers();
  auto& entry = object[std::string{key}];
  if (numbers.empty()) {
    entry = setting.name();
    return;
  }
  entry["name"] = setting.name();
  for (const auto& number : numbers)
    entry[number.name] = number.value;
}

void writer::layers(std::string_view key, layer_list& setting) {
  if (depth_ > max_nesting_depth)
    throw std::logic_error("layers are nested more than "
                           + std::to_string(max_nesting_depth)
                           + " deep; does a layer contain itself?");
  auto list = json::array();
  for (const auto& child : setting) {
    if (!child)
      throw std::logic_error("a layer of a description is null");
    writer inner{depth_ + 1};
    inner.object["type"] = child->type();
    if (!child->name.empty())
      inner.object["name"] = child->name;
    child->visit_settings(inner);
    list.push_back(std::move(inner.object));
  }
  object[std::string{key}] = std::move(list);
}

} // namespace troupe::models::detail
