#include "troupe/training/loop/model/shared_apply.hpp"

#include "troupe/actors/core/failure_text.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace troupe {

namespace {

bool is_same(const tensor& a, const tensor& b) {
  if (a.bytes() != b.bytes())
    return false;
  if (a.address() == b.address() || a.bytes() == 0)
    return true;
  const auto left = a.to({}), right = b.to({});
  return std::memcmp(left.raw(), right.raw(), left.bytes()) == 0;
}

bool is_same(const parameter_gradient& a, const parameter_gradient& b) {
  return a.is_sparse() == b.is_sparse()
         && (!a.is_sparse() || is_same(a.rows().indices(), b.rows().indices()))
         && is_same(a.elements(), b.elements());
}

/// True if it is certain that the two are equal, because they share memory.
bool shares_memory(const parameter_gradient& a, const parameter_gradient& b) {
  if (a.is_sparse() || b.is_sparse())
    return a.is_sparse() && b.is_sparse()
           && a.rows().count() == b.rows().count()
           && a.rows().indices().address() == b.rows().indices().address()
           && a.rows().rows().address() == b.rows().rows().address();
  return a.elements().address() == b.elements().address();
}

/// Returns the replicas, without replica 0, for which `differs(replica)`.
template <class F>
std::vector<std::uint32_t> replicas_where(std::size_t replicas,
                                          const F& differs) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t r = 1; r < replicas; ++r)
    if (differs(r))
      out.push_back(r);
  return out;
}

} // namespace

void shared_apply::wait_for_gradients(
  replica_context& self, std::span<const parameter_gradient> gradients,
  std::span<const variable> variables) {
  auto& own = calls_[self.replica_id()];
  own.gradients.assign(gradients.begin(), gradients.end());
  own.variables.clear();
  for (const auto& x : variables)
    own.variables.push_back(x.id());
  // No replica claims slices now. This replica has returned from the last
  // `wait_for_end`, so all have called it. Or a new generation has begun, for
  // which all replicas have left their steps.
  if (self.replica_id() == 0)
    slices_.reset();
  const auto objects = self.barrier(reinterpret_cast<std::uintptr_t>(this));
  const auto elsewhere = replicas_where(
    calls_.size(), [&](auto r) { return objects[r] != objects[0]; });
  if (!elsewhere.empty())
    throw std::logic_error(replica_list(elsewhere)
                           + " applied another optimizer than replica 0; all "
                             "replicas must apply the "
                             "same optimizers in the same order");
  const auto others = replicas_where(calls_.size(), [&](auto r) {
    return calls_[r].variables != calls_[0].variables;
  });
  if (!others.empty()) {
    // The caller may catch the error and call this function again, which
    // changes what the other replicas read here.
    self.barrier(0);
    throw std::logic_error(
      replica_list(others)
      + " applied gradients to other variables than replica 0; all replicas "
        "must pass the same variables in the same order");
  }
  if (is_same_storage())
    return;
  const auto differences = self.barrier(first_difference(self.replica_id()));
  const auto first = std::ranges::min(differences);
  if (first == variables.size())
    return;
  const auto differ = replicas_where(
    calls_.size(), [&](auto r) { return differences[r] == first; });
  throw std::logic_error(
    "the gradients of the variable \"" + variables[first].name() + "\" differ: "
    + replica_list(differ) + (differ.size() == 1 ? " has" : " have")
    + " other values than replica 0; all_reduce the gradients before an "
      "optimizer applies them, so that all replicas make the same update");
}

void shared_apply::wait_for_end(replica_context& self) {
  self.barrier(0);
  calls_[self.replica_id()] = {}; // no other replica compares any more
}

bool shared_apply::is_same_storage() const {
  return std::ranges::all_of(calls_, [&](const call& x) {
    return std::ranges::equal(x.gradients, calls_[0].gradients, shares_memory);
  });
}

/// Returns the index of the first variable for which a replica passed another
/// gradient than replica 0; their number if there is none.
std::size_t shared_apply::first_difference(std::uint32_t replica) const {
  const auto& own = calls_[replica].gradients;
  const auto& first = calls_[0].gradients;
  std::size_t i = 0;
  while (i < own.size() && is_same(own[i], first[i]))
    ++i;
  return i;
}

} // namespace troupe
