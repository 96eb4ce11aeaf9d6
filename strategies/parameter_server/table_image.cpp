#include "troupe/strategies/parameter_server/table_image.hpp"

#include "troupe/strategies/parameter_server/table_part.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace troupe::parameter_server {

namespace {

/// Slots that a rule can have at most.
constexpr std::size_t max_slots = 2;

[[noreturn]] void reject(const std::string& what) {
  throw std::invalid_argument("the snapshot of a table: " + what);
}

std::int64_t count_of(std::size_t n) {
  return static_cast<std::int64_t>(n);
}

/// Appends the rows of a map for which `is_idle` returns false: numbers, floats
/// unless there are none, and tags unless there are none.
template <class F>
void save_rows(const row_map& from, std::vector<tensor>& beside,
               const F& is_idle) {
  std::int64_t rows = 0;
  from.for_each([&](const row_map::entry& x) { rows += is_idle(x) ? 0 : 1; });
  tensor numbers{{shape{rows}, dtype::int64}};
  tensor values{{shape{rows, count_of(from.floats())}, dtype::float32}};
  tensor tags{{shape{rows, count_of(from.tags())}, dtype::int64}};
  auto number = numbers.mutable_data<std::int64_t>().begin();
  auto value = values.mutable_data<float>().begin();
  auto tag = tags.mutable_data<std::int64_t>().begin();
  from.for_each([&](const row_map::entry& x) {
    if (is_idle(x))
      return;
    *number++ = x.number();
    value = std::ranges::copy(x.values(), value).out;
    for (std::size_t i = 0; i < from.tags(); ++i)
      *tag++ = x.tag(i);
  });
  beside.push_back(numbers);
  if (from.floats() > 0)
    beside.push_back(values);
  if (from.tags() > 0)
    beside.push_back(tags);
}

/// Takes tensors one after the other.
class tensor_source {
public:
  explicit tensor_source(std::span<const tensor>& from) : from_{from} {}

  /// @errors throws std::invalid_argument unless it is such a tensor.
  tensor next(const tensor_spec& wanted) {
    auto out = next(wanted.type, wanted.dims.rank());
    if (out.spec() != wanted)
      reject("a tensor is " + to_string(out.spec()) + ", not "
             + to_string(wanted));
    return out;
  }

  tensor next(dtype type, std::size_t rank) {
    if (from_.empty() || !from_.front())
      reject("a tensor is missing");
    auto out = from_.front();
    if (out.type() != type || out.dims().rank() != rank)
      reject("a tensor is " + to_string(out.spec()));
    from_ = from_.subspan(1);
    return out;
  }

private:
  std::span<const tensor>& from_;
};

void restore_rows(row_map& into, std::int64_t part_rows, tensor_source& from) {
  const auto numbers = from.next(dtype::int64, 1);
  const auto rows = numbers.dims().front();
  const auto floats = into.floats(), tags = into.tags();
  tensor values, kept_tags;
  if (floats > 0)
    values = from.next({shape{rows, count_of(floats)}, dtype::float32});
  if (tags > 0)
    kept_tags = from.next({shape{rows, count_of(tags)}, dtype::int64});
  const auto all = numbers.data<std::int64_t>();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] < 0 || all[i] >= part_rows)
      reject("there is no row " + std::to_string(all[i]));
    const auto number = static_cast<std::uint32_t>(all[i]);
    if (into.find(number))
      reject("row " + std::to_string(number) + " occurs twice");
    const auto made = into.insert(number);
    if (floats > 0)
      std::ranges::copy(values.data<float>().subspan(i * floats, floats),
                        made.values().begin());
    for (std::size_t k = 0; k < tags; ++k)
      made.tag(k) = static_cast<std::uint32_t>(
        kept_tags.data<std::int64_t>()[i * tags + k]);
  }
}

} // namespace

table_image table_part::save(std::vector<tensor>& beside) const {
  table_image out{version_, next_step_, {}, {}};
  for (const auto& [optimizer, state] : optimizers_)
    out.optimizers.push_back({optimizer, state.steps,
                              static_cast<std::uint32_t>(state.first),
                              state.initial});
  save_rows(rows_, beside, [&](const entry& x) { return is_idle(x); });
  save_rows(candidates_, beside,
            [&](const entry& x) { return is_idle(x.tag(1)); });
  for (const auto& [step, given] : contributions_) {
    auto& one = out.waiting.emplace_back(waiting_step_image{step, {}});
    for (const auto& [replica, gradient] : given) {
      one.replicas.push_back(replica);
      beside.push_back(gradient.indices());
      beside.push_back(gradient.rows());
    }
  }
  return out;
}

table_part table_part::restore(table_part made, const table_image& from,
                               std::span<const tensor>& beside) {
  auto left = beside;
  tensor_source tensors{left};
  made.version_ = from.version;
  made.next_step_ = from.next_step;
  std::size_t slots = 0;
  for (const auto& one : from.optimizers) {
    if (one.initial.size() > max_slots
        || (!made.optimizers_.empty()
            && made.optimizers_.rbegin()->first >= one.optimizer))
      reject("optimizer " + std::to_string(one.optimizer) + " is impossible");
    made.optimizers_[one.optimizer] = {one.steps, one.first, one.initial};
    slots += one.initial.size();
  }
  std::vector<bool> is_used(slots); // by slot
  for (const auto& [optimizer, state] : made.optimizers_) {
    if (state.first > slots || state.initial.size() > slots - state.first)
      reject("the slots of optimizer " + std::to_string(optimizer)
             + " are missing");
    for (std::size_t i = 0; i < state.initial.size(); ++i) {
      if (is_used[state.first + i])
        reject("optimizer " + std::to_string(optimizer)
               + " has the slots of another one");
      is_used[state.first + i] = true;
    }
  }
  made.rows_ = row_map{(1 + slots) * made.elements_, made.rows_.tags()};
  restore_rows(made.rows_, made.range_.size(), tensors);
  restore_rows(made.candidates_, made.range_.size(), tensors);
  for (const auto& one : from.waiting) {
    const auto name = "step " + std::to_string(one.step);
    if (one.step < from.next_step
        || (!made.contributions_.empty()
            && made.contributions_.rbegin()->first >= one.step))
      reject(name + " is not in its place");
    auto& given = made.contributions_[one.step];
    for (const auto replica : one.replicas) {
      if (replica >= max_contributors || given.contains(replica))
        reject("the replicas of " + name + " are impossible");
      const auto rows = tensors.next(dtype::int64, 1);
      const auto elements = tensors.next(
        {made.table_.with_extent(0, rows.dims().front()), dtype::float32});
      try {
        given.emplace(replica,
                      sparse_rows{made.spec().dims, rows, elements}.sorted());
      } catch (const std::out_of_range& e) {
        reject(e.what());
      }
    }
  }
  beside = left;
  return made;
}

} // namespace troupe::parameter_server
