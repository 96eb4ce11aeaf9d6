#pragma once

#include "troupe/actors/group/actor_group.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/simulation/simulated_group.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <ostream>

namespace troupe::test {

/// The kinds of replica groups. All kinds must have the same behavior.
enum class group_kind { sequential, actors, simulated };

inline void PrintTo(group_kind x, std::ostream* out) {
  constexpr const char* names[] = {"sequential", "actors", "simulated"};
  *out << names[static_cast<int>(x)];
}

inline const auto all_kinds = ::testing::Values(
  group_kind::sequential, group_kind::actors, group_kind::simulated);

inline const auto name_of_kind = [](const auto& info) {
  return ::testing::PrintToString(info.param);
};

/// A replica group of any kind, with its environment.
class any_group {
public:
  any_group(group_kind kind, const replica_group_options& options) {
    switch (kind) {
      case group_kind::sequential:
        group_ = make_sequential_group(options);
        break;
      case group_kind::actors:
        runtime_.emplace();
        group_ = make_replica_group(*runtime_, options);
        break;
      case group_kind::simulated:
        world_.emplace(1);
        group_ = simulation::make_replica_group(*world_, options);
        break;
    }
  }

  replica_group* operator->() const { return group_.get(); }
  replica_group& operator*() const { return *group_; }

private:
  std::optional<runtime> runtime_;
  std::optional<simulation::simulator> world_;
  /// Declared last, so that the group is destroyed before its environment.
  std::unique_ptr<replica_group> group_;
};

} // namespace troupe::test
