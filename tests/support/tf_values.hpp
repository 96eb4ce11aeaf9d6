#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::test {

/// Values that TensorFlow and Keras have computed. The environment variable
/// TROUPE_TF_VALUES names the file, a JSON array of objects. Each has an "id"
/// that is unique, a "group", the "inputs" of a call, and what it gave,
/// "expected". Floats have 9 digits, which determine them.
inline const char* tf_values_file() {
  return std::getenv("TROUPE_TF_VALUES");
}

/// Returns the entries of a group, in the order of the file.
inline std::vector<nlohmann::json> tf_values(std::string_view group) {
  std::ifstream file{tf_values_file()};
  const auto all = nlohmann::json::parse(file);
  std::vector<nlohmann::json> out;
  for (const auto& one : all)
    if (one.at("group") == group)
      out.push_back(one);
  return out;
}

/// Reasons why entries are not replayed, by id.
using reasons_by_id = std::map<std::string, std::string>;

/// Calls `replay` for each entry, except for those with a reason. An id without
/// an entry is a failure, so the list of reasons has no old ids.
inline void replay(const std::vector<nlohmann::json>& entries,
                   reasons_by_id not_replayed,
                   const std::function<void(const nlohmann::json&)>& replay) {
  std::size_t replayed = 0;
  for (const auto& one : entries) {
    const auto id = one.at("id").get<std::string>();
    if (not_replayed.erase(id) > 0)
      continue;
    SCOPED_TRACE(id);
    ++replayed;
    replay(one);
  }
  EXPECT_GT(replayed, 0u);
  for (const auto& [id, reason] : not_replayed)
    ADD_FAILURE() << "the file has no entry " << id << " (" << reason << ')';
}

} // namespace troupe::test
