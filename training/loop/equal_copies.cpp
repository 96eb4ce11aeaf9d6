#include "troupe/training/loop/equal_copies.hpp"

#include "troupe/strategies/step_commit/stall_report.hpp"
#include "troupe/training/support/sha256.hpp"

#include <cstring>
#include <sstream>
#include <stdexcept>

namespace troupe {

namespace {

/// Returns the values of one variable in one copy.
tensor values_of(const parameters& own, std::size_t variable,
                 std::uint32_t copy) {
  const auto begin = own.offset(variable);
  const auto count = own.variables()[variable].dims().elements();
  return own.values(copy).range(begin, begin + count);
}

bool same_bytes(const tensor& a, const tensor& b) {
  return a.bytes() == 0 || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
}

/// Returns a text that identifies the values of a copy: their hash if several
/// processes compare them, else the number of the copy. The caller
/// uses one text for all equal copies of a process.
std::string fingerprint(const tensor& x, bool hashed, std::uint32_t copy) {
  if (!hashed)
    return std::to_string(copy);
  sha256 hash;
  hash.add({x.raw(), x.bytes()});
  return to_hex(hash.finish());
}

[[noreturn]] void refuse(const std::string& variable,
                         std::span<const std::uint32_t> differ,
                         std::uint32_t first) {
  throw std::logic_error(
    "the copies of the variable \"" + variable + "\" differ: "
    + commit::replicas_named(differ) + (differ.size() == 1 ? " has" : " have")
    + " other values than replica " + std::to_string(first)
    + "; all_reduce the gradients before an optimizer applies them, so that "
      "all replicas make the same update, or, if a step failed before, load "
      "the last saved file");
}

} // namespace

/// The text has a line for each variable: its name, then replica and
/// fingerprint of each copy, separated by tabs.
std::string copies_here(const model_state& it) {
  const auto& here = it.strategy->here;
  const bool hashed = here.processes > 1;
  std::ostringstream out;
  for (std::size_t v = 0; v < it.variables().size(); ++v) {
    out << it.variables()[v].name();
    const auto first = values_of(it.own, v, 0);
    const auto usual = fingerprint(first, hashed, 0);
    for (std::uint32_t c = 0; c < it.own.copies(); ++c) {
      const auto mine = values_of(it.own, v, c);
      out << '\t' << here.first + c << '\t'
          << (same_bytes(mine, first) ? usual : fingerprint(mine, hashed, c));
    }
    out << '\n';
  }
  return out.str();
}

void compare_copies(const std::vector<std::string>& told) {
  std::vector<std::istringstream> all(told.begin(), told.end());
  for (;;) {
    std::string variable, usual;
    std::uint32_t first = 0;
    std::vector<std::uint32_t> differ;
    for (auto& one : all) {
      std::string line, name, word;
      if (!std::getline(one, line))
        return; // The models differ in more than their copies.
      std::istringstream words{line};
      std::getline(words, name, '\t');
      if (variable.empty())
        variable = name;
      else if (name != variable)
        return;
      for (std::uint32_t replica = 0; words >> replica >> word;)
        if (usual.empty()) {
          usual = word;
          first = replica;
        } else if (word != usual) {
          differ.push_back(replica);
        }
    }
    if (!differ.empty())
      refuse(variable, differ, first);
  }
}

void check_equal_copies(const model_state& it,
                        std::chrono::milliseconds join_timeout) {
  const auto& here = it.strategy->here;
  if (here.processes > 1 || it.own.copies() > 1)
    compare_copies(tell_all(it.strategy, copies_here(it), join_timeout));
}

} // namespace troupe
