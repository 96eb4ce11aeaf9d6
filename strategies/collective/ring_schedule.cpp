#include "troupe/strategies/collective/state_machine.hpp"
#include "troupe/strategies/tree/fold.hpp"

#include <algorithm>

// Around the ring: which chunk is next, what is sent on, and who is silent.

namespace troupe::exchange {

/// A ring of one is its own tree.
bool machine::rings(const record& x) const {
  return x.said.way == terms::ways::ring && x.what != subject::share
         && at_.processes() > 1;
}

std::uint32_t machine::chunk_at(const place& x, subject what,
                                std::uint32_t from) const {
  const auto way = ring_of(at(x.record));
  return what == subject::sum ? way.sum_at(x.j, x.i, from)
                              : way.part_at(x.j, x.i, from);
}

/// Moves on from hops of chunks that do not exist.
/// @returns false if there is none left in this record.
bool machine::next_hop(place& x, subject what, std::uint32_t from,
                       std::uint32_t to) const {
  const auto& r = at(x.record);
  const auto way = ring_of(r);
  if (to != way.next(from))
    return false;
  for (; x.j * way.processes < r.chunks.count; x = {x.record, x.j + 1, 0})
    for (; x.i < way.hops(); ++x.i)
      if (chunk_at(x, what, from) < r.chunks.count)
        return true;
  return false;
}

// -- sending ------------------------------------------------------------------

bool machine::send_part_on(courier& by, std::uint32_t to, const parcel& what) {
  auto& next = peers_[to].parts_out;
  const auto& x = at(next.record);
  const bool begins = next.i == 0;
  if (!begins
      && peers_[before_me()].parts.next
           <= place{next.record, next.j, next.i - 1})
    return false;
  if (begins && locals() > 1) {
    const auto room = by.room(to, queue::parts);
    if (room.empty())
      return false;
    const auto bytes = bytes_of(x, x.whole, what.chunk).size();
    fold_own(x, {mine(), mine() + locals()}, what.chunk, room.first(bytes));
    by.post(to, queue::parts, write(what), bytes);
  } else if (!by.post(to, queue::parts, write(what),
                      bytes_of(x, begins ? x.own[0] : x.whole, what.chunk))) {
    return false;
  }
  ++next.i;
  return true;
}

/// Whether the sum is here: added, or heard from the one before.
bool machine::may_send_sum(const place& x) const {
  const auto& in = peers_[before_me()];
  return x.i == 0 ? in.parts.next
                      > place{x.record, x.j, ring_of(at(x.record)).hops() - 1}
                  : in.sums.next > place{x.record, x.j, x.i - 1};
}

// -- receiving ----------------------------------------------------------------

/// Adds the own to it, into where its sum will lie: so it is taken at once,
/// whoever waits for room to send it on.
bool machine::take_part_on(courier& by, std::uint32_t from, const parcel& due) {
  auto& next = peers_[from].parts.next;
  auto& x = at(next.record);
  const auto into = bytes_of(x, x.whole, due.chunk);
  if (!sized(by, from, queue::parts, into.size()))
    return false;
  std::span<const std::byte> theirs = by.view(from, queue::parts);
  if (theirs.empty()) {
    if (!fetch(by, from, queue::parts, into, x.whole))
      return false;
    theirs = into;
  }
  if (!aligned(from, theirs.data(), x.spec.type))
    return false;
  add_own(x, due.chunk, theirs, into);
  pop(by, from, queue::parts);
  if (++next.i == ring_of(x).hops())
    kept(x);
  return true;
}

/// theirs + what the replicas here sum up to.
void machine::add_own(const record& x, std::uint32_t chunk,
                      std::span<const std::byte> theirs,
                      std::span<std::byte> into) {
  const auto begin = x.chunks.each * chunk * size_of(x.spec.type);
  const auto run = [&]<class T>(T) {
    const auto leaf = [&](std::size_t a, std::size_t b) -> const T* {
      return b - a == 1
               ? reinterpret_cast<const T*>(x.own[a - mine()].raw() + begin)
               : nullptr;
    };
    const auto* left = reinterpret_cast<const T*>(theirs.data());
    auto* out = reinterpret_cast<T*>(into.data());
    const auto all = into.size() / sizeof(T);
    alignas(64) T sum[tree::block];
    for (std::size_t at = 0; at < all; at += tree::block) {
      const auto n = std::min(tree::block, all - at);
      const auto* own = tree::fold(mine(), mine() + locals(), at, n, sum, leaf);
      tree::add(out + at, left + at, own, n);
    }
  };
  if (x.spec.type == dtype::float32)
    run(float{});
  else
    run(double{});
}

/// Whether this process has sent on, or last added to, the part of a chunk
/// whose sum has come: before that there can be none.
bool machine::part_is_sent(const place& sum, std::uint32_t chunk) const {
  const auto way = ring_of(at(sum.record));
  return peers_[way.next(at_.me)].parts_out
         > place{sum.record, sum.j, way.hop_of(chunk, at_.me)};
}

// -- who is missing -----------------------------------------------------------

/// Of those who must have added before what is due can come, whoever is not
/// known to have begun; if all are, the one before.
std::vector<std::uint32_t> machine::silent_in_ring(const record& x) const {
  const auto way = ring_of(x);
  const auto before = before_me();
  auto due = peers_[before].parts.next; // all before it are taken
  const bool part = next_part(due, before, at_.me) && due.record == complete_;
  std::uint32_t begun = 0; // so many before this one
  for (place at{complete_, 0, 0}; at.i < way.hops(); ++at.i)
    if (at < peers_[before].parts.next
        && chunk_at(at, subject::part, before) < x.chunks.count)
      begun = at.i + 1;
  const auto most = part && due.j == 0 ? due.i + 1 : way.hops();
  std::vector<std::uint32_t> out;
  for (auto hops = begun; hops < most; ++hops)
    out.push_back(way.before(before, hops));
  if (out.empty())
    out.push_back(before);
  std::ranges::sort(out);
  return out;
}

} // namespace troupe::exchange
