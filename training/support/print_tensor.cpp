#include "troupe/training/support/print_tensor.hpp"

#include <algorithm>
#include <ostream>

namespace troupe {

std::ostream& operator<<(std::ostream& out, const tensor& printed) {
  constexpr std::size_t max_elements = 16;
  if (!printed)
    return out << "no tensor";
  const bool scalar = printed.dims().rank() == 0;
  if (!scalar)
    out << to_string(printed.spec());
  const auto read = printed.detach().to({});
  with_dtype(read.type(), [&](auto zero) {
    using type = decltype(zero);
    const auto values = read.data<type>();
    for (const auto value : values.first(std::min(values.size(), max_elements)))
      out << (scalar ? "" : " ") << +value;
    if (values.size() > max_elements)
      out << " ...";
  });
  return out;
}

} // namespace troupe
