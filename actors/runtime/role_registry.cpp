#include "troupe/actors/runtime/role_registry.hpp"

#include <algorithm>
#include <stdexcept>

namespace troupe {

namespace {

constexpr std::size_t max_name_length = 64;

bool is_valid_name(const std::string& name) {
  return !name.empty() && name.size() <= max_name_length
         && std::ranges::all_of(name,
                                [](char c) { return c > ' ' && c <= '~'; });
}

} // namespace

void role_registry::add(const std::string& name, entry&& new_entry) {
  if (!is_valid_name(name))
    throw std::logic_error("\"" + name.substr(0, max_name_length)
                           + "\" cannot name a role; give 1 to 64 printable "
                             "characters without blanks");
  const std::lock_guard hold{lock_};
  if (!entries_
         .emplace(name, std::make_shared<const entry>(std::move(new_entry)))
         .second)
    throw std::logic_error("a role \"" + name
                           + "\" is registered already; give another name");
}

std::shared_ptr<const role_registry::entry>
role_registry::find(const std::string& name) const {
  const std::lock_guard hold{lock_};
  const auto it = entries_.find(name);
  return it == entries_.end() ? nullptr : it->second;
}

std::vector<std::string> role_registry::names() const {
  const std::lock_guard hold{lock_};
  std::vector<std::string> all;
  for (const auto& [name, x] : entries_)
    all.push_back(name);
  return all;
}

} // namespace troupe
