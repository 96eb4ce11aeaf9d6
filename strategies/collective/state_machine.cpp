#include "troupe/strategies/collective/state_machine.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace troupe::exchange {

namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw std::logic_error(what);
}

std::string text_of(subject what, std::uint32_t bucket, const tensor_spec& spec,
                    const terms& said) {
  return (what == subject::share
            ? "gather " + std::to_string(bucket)
            : "bucket " + std::to_string(bucket) + " of " + to_string(spec))
         + (said == terms{} ? "" : " " + to_string(said));
}

} // namespace

machine::machine(layout at)
  : at_{std::move(at)},
    peers_(at_.processes()),
    scratch_(at_.replicas()),
    leaves_(at_.replicas()) {
  for (std::uint32_t p = 0; p < at_.processes(); ++p) {
    if (at_.first[p] >= at_.first[p + 1])
      refuse("process " + std::to_string(p)
             + " of a collective has no replica");
    subtrees_.push_back(subtrees_of(at_, p));
    owners_.resize(at_.first[p + 1], p);
  }
  members_.resize(locals());
}

// -- generations and steps ----------------------------------------------------

machine::member& machine::of(std::uint32_t replica) {
  return members_[replica - mine()];
}

const machine::member& machine::of(std::uint32_t replica) const {
  return members_[replica - mine()];
}

void machine::open(std::uint64_t epoch) {
  for (auto& p : peers_)
    for (auto* in : {&p.parts, &p.sums})
      if (!in->into.empty() && !in->fetched)
        discard_rest(*in, in->into.size());
  epoch_ = epoch;
  over_ = false;
  wrong_.reset();
  for (auto& r : records_)
    let_go(r);
  records_.clear();
  base_ = ready_ = complete_ = 0;
  added_ = {};
  for (auto& p : peers_) {
    p.parts_out = p.sums_out = {};
    for (auto* in : {&p.parts, &p.sums}) {
      in->next = {};
      in->here = false;
    }
  }
}

/// Redirects the rest of an obsolete packet to scratch memory: its original
/// destination may be a tensor that the caller reuses.
void machine::discard_rest(incoming& x, std::size_t bytes) {
  if (!trash_)
    trash_ = tensor{shape{std::int64_t(most_bytes)}, dtype::uint8};
  x.into = {trash_.raw(), bytes};
  x.keep = trash_;
}

void machine::seat(std::uint32_t replica, std::uint64_t epoch) {
  if (epoch > epoch_)
    open(epoch);
  auto& m = of(replica);
  if (m.epoch != epoch)
    m = {};
  m.epoch = epoch;
}

bool machine::current(std::uint32_t replica) const {
  return of(replica).epoch == epoch_ && !over_;
}

void machine::enter(std::uint32_t replica, std::uint64_t step) {
  auto& m = of(replica);
  m.step = step;
  m.first = m.next;
  m.highest = {-1, -1};
  trim();
}

void machine::leave(std::uint32_t replica) {
  auto& m = of(replica);
  if (current(replica) && !settled(replica)) {
    over_ = true;
    for (auto& r : records_)
      let_go(r);
  }
  m.first = m.next;
  trim();
}

// -- contributions ------------------------------------------------------------

const machine::record* machine::find(const member& m, subject what,
                                     std::uint32_t bucket) const {
  const auto fits = [&](std::uint64_t number) {
    const auto& x = at(number);
    return x.bucket == bucket && x.what == what;
  };
  if (m.first + bucket < m.next && fits(m.first + bucket))
    return &at(m.first + bucket);
  for (auto number = m.first; number < m.next; ++number)
    if (fits(number))
      return &at(number);
  return nullptr;
}

machine::record& machine::next_record(std::uint32_t replica, subject what,
                                      std::uint32_t bucket, const tensor& part,
                                      const terms& said) {
  auto& m = of(replica);
  auto& highest = m.highest[what == subject::share];
  if (bucket <= highest && find(m, what, bucket))
    refuse(what == subject::share ? "gather " + std::to_string(bucket)
                                      + " was called twice in a step"
                                  : "bucket " + std::to_string(bucket)
                                      + " was contributed to twice in a step");
  highest = std::max<std::int64_t>(highest, bucket);
  const auto k = static_cast<std::uint32_t>(m.next - m.first);
  const auto spec = what == subject::share ? tensor_spec{} : part.spec();
  if (m.next == base_ + records_.size()) {
    auto& x = records_.emplace_back();
    try {
      x.own.resize(locals());
      if (what == subject::share)
        x.all.resize(at_.replicas());
    } catch (...) {
      records_.pop_back();
      throw;
    }
    x.what = what;
    x.step = m.step;
    x.k = k;
    x.bucket = bucket;
    x.opener = replica;
    x.said = said;
    x.spec = spec;
  }
  auto& x = at(m.next);
  if (x.step != m.step || x.k != k || x.what != what || x.bucket != bucket
      || x.spec != spec || x.said != said)
    refuse("replica " + std::to_string(replica) + " contributed "
           + text_of(what, bucket, spec, said) + " as operation "
           + std::to_string(k) + " of step " + std::to_string(m.step)
           + ", replica " + std::to_string(x.opener) + " "
           + text_of(x.what, x.bucket, x.spec, x.said) + " as operation "
           + std::to_string(x.k) + " of step " + std::to_string(x.step)
           + ": the replicas do not call the same collectives");
  ++m.next;
  return x;
}

void machine::contribute(std::uint32_t replica, std::uint32_t bucket,
                         const tensor& part, const terms& said, room of_sum) {
  if (!current(replica))
    return;
  if (!part || (part.type() != dtype::float32 && part.type() != dtype::float64))
    refuse("bucket " + std::to_string(bucket)
           + " is not of float32 or float64");
  auto& x = next_record(replica, subject::part, bucket, part, said);
  x.own[replica - mine()] = part;
  x.of_sum = of_sum;
  begin_ready();
}

void machine::gather(std::uint32_t replica, std::uint32_t bucket,
                     const tensor& part, const terms& said) {
  if (!current(replica))
    return;
  if (!part || part.bytes() > most_share)
    refuse("gather " + std::to_string(bucket) + " was called with "
           + (part ? to_string(part.spec()) + ", which is more than "
                       + std::to_string(most_share) + " bytes"
                   : "no tensor"));
  const terms plain{terms::ways::tree, said.timeout, said.bytes_per_pack};
  // peers may read it after the end of this step
  const auto copy = part.clone();
  auto& x = next_record(replica, subject::share, bucket, part, plain);
  x.own[replica - mine()] = copy;
  x.all[replica] = copy;
  begin_ready();
}

/// Starts the operations that all local replicas have contributed to.
void machine::begin_ready() {
  auto until = ~std::uint64_t{0};
  for (const auto& m : members_)
    until = std::min(until, m.epoch == epoch_ ? m.next : 0);
  for (; ready_ < until; ++ready_)
    begin(at(ready_));
}

/// If memory for the result cannot be allocated, the operation is not started
/// and the next call can start it.
void machine::begin(record& x) {
  if (x.what == subject::share) {
    x.left = at_.replicas() - locals();
  } else {
    x.chunks =
      cut_of(x.spec.dims.elements(), x.spec.type, at_.processes(), x.said.way);
    // A caller that has the sum may change its contribution, so all-to-all
    // operations count the packets to send as well.
    x.left = x.chunks.count + (x.chunks.direct ? at_.processes() - 1 : 0);
    const bool in_place = x.of_sum == room::of_part && locals() == 1
                          && !x.chunks.direct && !rings(x);
    x.whole = in_place ? x.own[0] : tensor{x.spec};
  }
  x.begun = true;
  if (x.left == 0)
    ended();
}

void machine::kept(record& x) {
  if (--x.left == 0)
    ended();
}

void machine::ended() {
  ++completed_;
  while (complete_ < base_ + records_.size() && at(complete_).begun
         && at(complete_).left == 0)
    ++complete_;
}

/// Releases the contributions; no local code reads them any more.
void machine::let_go(record& x) {
  if (lent_) {
    std::ranges::copy(x.own, std::back_inserter(kept_));
    kept_.push_back(x.whole);
  }
  x.own.clear();
}

void machine::given_back() {
  lent_ = false;
  kept_.clear();
}

/// Removes operations that no replica and no queue needs any more.
void machine::trim() {
  auto until = complete_;
  for (const auto& m : members_)
    until = std::min(until, m.epoch == epoch_ ? m.first : 0);
  for (std::uint32_t p = 0; p < at_.processes(); ++p)
    if (p != at_.me)
      for (const auto* x : {&peers_[p].parts_out, &peers_[p].sums_out,
                            &peers_[p].parts.next, &peers_[p].sums.next})
        until = std::min(until, x->record);
  until = std::min(until, added_.record);
  const auto count = until - base_;
  if (count == 0)
    return;
  const auto end = records_.begin() + static_cast<std::ptrdiff_t>(count);
  std::for_each(records_.begin(), end, [this](record& x) { let_go(x); });
  records_.erase(records_.begin(), end);
  base_ = until;
}

// -- results ------------------------------------------------------------------

tensor machine::sum_of(std::uint32_t replica, std::uint32_t bucket) const {
  if (!current(replica))
    return {};
  const auto* x = find(of(replica), subject::part, bucket);
  if (!x)
    refuse("the sum of bucket " + std::to_string(bucket)
           + " was asked for before a contribution to it");
  return x->begun && x->left == 0 ? x->whole : tensor{};
}

tensors machine::gathered(std::uint32_t replica, std::uint32_t bucket) const {
  if (!current(replica))
    return {};
  const auto& m = of(replica);
  const auto* x = find(m, subject::share, bucket);
  return x && x->begun && x->left == 0 ? x->all : tensors{};
}

bool machine::complete(std::uint32_t replica) const {
  return complete_ >= of(replica).next;
}

bool machine::settled(std::uint32_t replica) const {
  const auto until = of(replica).next;
  if (complete_ < until)
    return false;
  for (std::uint32_t p = 0; p < at_.processes(); ++p)
    if (p != at_.me
        && (peers_[p].parts_out.record < until
            || peers_[p].sums_out.record < until))
      return false;
  return true;
}

std::uint32_t machine::incomplete(std::uint32_t replica) const {
  return !complete(replica) && current(replica) ? at(complete_).bucket : 0;
}

} // namespace troupe::exchange
