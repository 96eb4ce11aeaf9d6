#include "troupe/training/support/print_tensor.hpp"

#include <algorithm>
#include <ostream>

namespace troupe {

std::ostream& operator<<(std::ostream& out, const tensor& x) {
  constexpr std::size_t most = 16;
  if (!x)
    return out << "no tensor";
  const bool scalar = x.dims().rank() == 0;
  if (!scalar)
    out << to_string(x.spec());
  with_dtype(x.type(), [&](auto zero) {
    using type = decltype(zero);
    const auto values = x.data<type>();
    for (const auto value : values.first(std::min(values.size(), most)))
      out << (scalar ? "" : " ") << +value;
    if (values.size() > most)
      out << " ...";
  });
  return out;
}

} // namespace troupe
