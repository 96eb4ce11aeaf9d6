#pragma once

#include "troupe/actors/group/actor_group.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/simulation/simulated_group.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <ostream>

namespace troupe::test {

/// The kinds of replica groups. All must have the same behavior.
enum class kind_of_crew { inside, actors, simulated };

inline void PrintTo(kind_of_crew x, std::ostream* out) {
  constexpr const char* names[] = {"inline", "actors", "simulated"};
  *out << names[static_cast<int>(x)];
}

inline const auto all_kinds = testing::Values(
  kind_of_crew::inside, kind_of_crew::actors, kind_of_crew::simulated);

inline const auto name_of_kind = [](const auto& info) {
  return testing::PrintToString(info.param);
};

/// A replica group of any kind, with its environment.
class any_crew {
public:
  any_crew(kind_of_crew kind, const crew_options& options) {
    switch (kind) {
      case kind_of_crew::inside:
        it_ = make_inline_crew(options);
        break;
      case kind_of_crew::actors:
        runtime_.emplace();
        it_ = make_crew(*runtime_, options);
        break;
      case kind_of_crew::simulated:
        world_.emplace(1);
        it_ = simulation::make_crew(*world_, options);
        break;
    }
  }

  crew* operator->() const { return it_.get(); }
  crew& operator*() const { return *it_; }

private:
  std::optional<runtime> runtime_;
  std::optional<simulation::sim> world_;
  std::unique_ptr<crew>
    it_; ///< Last, so that it is destroyed before its environment.
};

} // namespace troupe::test
