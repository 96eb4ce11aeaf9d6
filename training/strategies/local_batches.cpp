#include "troupe/training/strategies/local_batches.hpp"

#include <stdexcept>

namespace troupe {

batch cut(const batch& from, const share& rows) {
  return {from.inputs.slice(rows.begin, rows.end),
          from.labels.slice(rows.begin, rows.end), from.global_rows};
}

namespace {

bool can_tell_apart(const data::dataset& batches, const data::position& from,
                    const crew::share& here, std::uint32_t replicas) {
  if (here.count == replicas)
    return false; // This process has all replicas.
  const auto size = batches.size();
  return (!size || from.index < *size) && batches.batch_rows(from);
}

} // namespace

batch local_batch::part_of(std::uint32_t replica,
                           std::uint32_t replicas) const {
  const auto mine = share_of(whole, replica, replicas);
  return cut(rows, {mine.begin - first, mine.end - first});
}

local_batches::local_batches(const data::dataset& batches,
                             const data::position& from,
                             const crew::share& here, std::uint32_t replicas)
  : batches_{batches},
    here_{here},
    replicas_{replicas},
    apart_{can_tell_apart(batches, from, here, replicas)},
    cursor_{(apart_
               ? batches.part(here.first, here.first + here.count, replicas)
               : batches)
              .iterate(from)} {}

std::optional<local_batch> local_batches::next() {
  const auto at = cursor_.save();
  auto read = cursor_.next();
  if (!read)
    return std::nullopt;
  if (read->labels.dims().rank() != 1)
    throw std::logic_error("a dataset is distributed after batch(); this one "
                           "yields single examples");
  local_batch out{std::move(*read)};
  out.whole = apart_ ? static_cast<std::int64_t>(*batches_.batch_rows(at))
                     : out.rows.labels.dims()[0];
  const auto mine =
    share_of(out.whole, here_.first, here_.first + here_.count, replicas_);
  out.first = mine.begin;
  if (!apart_ && here_.count < replicas_)
    out.rows = cut(out.rows, mine);
  out.rows.global_rows = out.whole;
  return out;
}

} // namespace troupe
