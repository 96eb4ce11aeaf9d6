#include "troupe/actors/runtime/role_registry.hpp"

#include <algorithm>
#include <stdexcept>

namespace troupe {

namespace {

constexpr std::size_t longest_name = 64;

bool is_name(const std::string& x) {
  return !x.empty() && x.size() <= longest_name
         && std::ranges::all_of(x, [](char c) { return c > ' ' && c <= '~'; });
}

} // namespace

void role_registry::add(const std::string& name, entry&& x) {
  if (!is_name(name))
    throw std::logic_error("\"" + name.substr(0, longest_name)
                           + "\" cannot name a role; give 1 to 64 printable "
                             "characters without blanks");
  const std::lock_guard hold{lock_};
  if (!entries_.emplace(name, std::make_shared<const entry>(std::move(x)))
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
