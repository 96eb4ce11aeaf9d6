#include "troupe/data/pipeline/stage.hpp"

#include <algorithm>
#include <stdexcept>

namespace troupe::data {

batched::batched(std::shared_ptr<const stage> on, std::uint64_t count,
                 bool drop)
  : link{std::move(on)}, count_{count}, drop_{drop} {
  constexpr auto most = std::uint64_t{1} << 32;
  if (count == 0 || count > most)
    throw std::invalid_argument("batches of " + std::to_string(count)
                                + " elements: give a number from 1 to 2^32");
}

std::optional<std::uint64_t> batched::size() const {
  const auto below = on().size();
  if (!below)
    return below;
  return *below / count_ + (!drop_ && *below % count_ != 0);
}

batch batched::read(const position& at, const std::stop_token& stop) const {
  return read_rows(at, {0, std::int64_t(*rows_of(at))}, stop);
}

std::optional<std::uint64_t> batched::rows_of(const position& at) const {
  const auto below = on().size();
  return below ? std::min(count_, *below - at.index * count_) : count_;
}

batch batched::read_rows(const position& at, const share& which,
                         const std::stop_token& stop) const {
  if (which.size()
      == 0) { // An empty range takes its shape and dtype from the first row.
    const auto one = read_rows(at, {0, 1}, stop);
    return {one.inputs.slice(0, 0), one.labels.slice(0, 0), one.global_rows};
  }
  const auto first = at.index * count_ + std::uint64_t(which.begin);
  pooled<position> from(std::size_t(which.size()));
  for (std::size_t i = 0; i < from.size(); ++i)
    from[i] = {at.pass, first + i};
  auto out = on().stack(from, stop);
  out.global_rows = std::int64_t(*rows_of(at));
  return out;
}

partial::partial(std::shared_ptr<const stage> on, std::uint32_t first,
                 std::uint32_t last, std::uint32_t parts)
  : link{std::move(on)}, first_{first}, last_{last}, parts_{parts} {
  if (first >= last || last > parts)
    throw std::invalid_argument(
      "shards [" + std::to_string(first) + ", " + std::to_string(last) + ") of "
      + std::to_string(parts) + ": give a non-empty range within them");
}

batch partial::read(const position& at, const std::stop_token& stop) const {
  if (const auto rows = on().rows_of(at))
    return on().read_rows(
      at, share_of(std::int64_t(*rows), first_, last_, parts_), stop);
  const auto all = on().read(at, stop);
  if (all.labels.dims().rank() != 1)
    throw std::logic_error("shard() needs batches, but this dataset "
                           "yields single examples: call it after batch()");
  const auto which = share_of(all.labels.dims()[0], first_, last_, parts_);
  return {all.inputs.slice(which.begin, which.end),
          all.labels.slice(which.begin, which.end), all.global_rows};
}

} // namespace troupe::data
