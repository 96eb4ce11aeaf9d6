#pragma once

#include "troupe/tensors/detail/op_check_cases.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace troupe {

using detail::draw;
using detail::run_of_op;
using detail::tried_op;

inline std::vector<tried_op> op_grid() {
  std::vector<tried_op> out;
  for (const auto* x : all_ops())
    for (std::size_t i = 0; i < x->cases.size(); ++i)
      out.push_back({x, i});
  return out;
}

inline std::string name_of(const ::testing::TestParamInfo<tried_op>& x) {
  return std::string{x.param.definition->name} + "_"
         + std::to_string(x.param.index);
}

namespace detail {

inline void PrintTo(const tried_op& x, std::ostream* out) {
  *out << x.description();
}

} // namespace detail
} // namespace troupe
