#include "troupe/data/pipeline/batch.hpp"

#include <stdexcept>

namespace troupe {

std::int64_t batch::rows() const {
  const auto& any = inputs           ? inputs
                    : labels         ? labels
                    : others.empty() ? inputs
                                     : others.front().value;
  return any && any.dims().rank() > 0 ? any.dims().front() : 0;
}

const tensor* batch::find(std::string_view name) const {
  if (name == "inputs")
    return inputs ? &inputs : nullptr;
  if (name == "labels")
    return labels ? &labels : nullptr;
  for (const auto& one : others)
    if (one.name == name)
      return &one.value;
  return nullptr;
}

const tensor& batch::operator[](std::string_view name) const {
  if (const auto* found = find(name))
    return *found;
  std::string names;
  for_each([&](std::string_view one, const tensor&) {
    names += (names.empty() ? "" : ", ") + std::string{one};
  });
  throw std::out_of_range("a batch has no tensor \"" + std::string{name}
                          + "\": it has " + (names.empty() ? "none" : names));
}

bool is_batch(const batch& x) {
  if (x.global_rows > 0)
    return true;
  bool is_empty_batch = false;
  x.for_each([&](std::string_view, const tensor& one) {
    is_empty_batch |= one.dims().rank() > 0 && one.dims().front() == 0;
  });
  return is_empty_batch;
}

batch select_rows(const batch& source, const row_range& rows) {
  return transform_tensors(
    source, [&](const tensor& one) { return one.slice(rows.begin, rows.end); });
}

} // namespace troupe
