#include "troupe/strategies/parameter_server/row_list.hpp"

#include <stdexcept>
#include <string>
#include <utility>

namespace troupe::parameter_server {

row_list::row_list(const shape& dims, tensor indices, tensor rows)
  : dims_{dims}, indices_{std::move(indices)}, rows_{std::move(rows)} {
  if (dims.rank() == 0 || indices_.type() != dtype::int64
      || indices_.dims().rank() != 1
      || rows_.dims() != dims.with_extent(0, indices_.dims().front()))
    throw std::logic_error("rows of a variable " + to_string(dims)
                           + " with the indices " + to_string(indices_.spec())
                           + " and the values " + to_string(rows_.spec()));
  for (const auto row : indices_.data<std::int64_t>())
    if (row < 0 || row >= dims.front())
      throw std::out_of_range("a variable " + to_string(dims) + " has no row "
                              + std::to_string(row));
}

} // namespace troupe::parameter_server
