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

void writer::initial(std::string_view key, initializer& x) {
  const auto numbers = x.numbers();
  auto& at = object[std::string{key}];
  if (numbers.empty()) {
    at = x.name();
    return;
  }
  at["name"] = x.name();
  for (const auto& number : numbers)
    at[number.name] = number.value;
}

void writer::layers(std::string_view key, layer_list& x) {
  if (depth_ > deepest_nesting)
    throw std::logic_error("layers are nested more than "
                           + std::to_string(deepest_nesting)
                           + " deep; does a layer contain itself?");
  auto list = json::array();
  for (const auto& one : x) {
    if (!one)
      throw std::logic_error("a layer of a description is null");
    writer inner{depth_ + 1};
    inner.object["type"] = one->type();
    if (!one->name.empty())
      inner.object["name"] = one->name;
    one->list(inner);
    list.push_back(std::move(inner.object));
  }
  object[std::string{key}] = std::move(list);
}

} // namespace troupe::models::detail
