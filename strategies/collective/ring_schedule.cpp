#include "troupe/strategies/collective/state_machine.hpp"
#include "troupe/strategies/tree/fold.hpp"

#include <algorithm>

// Ring algorithm: the order of chunks, forwarding, and the processes to report
// as missing.

namespace troupe::exchange {

/// With one process the ring and the tree are equal, so the tree is used.
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

/// Skips hops of chunks that do not exist.
/// @returns false if this operation has no hop left.
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

/// True if the sum is available: added here, or received from the previous
/// process.
bool machine::may_send_sum(const place& x) const {
  const auto& in = peers_[before_me()];
  return x.i == 0 ? in.parts.next
                      > place{x.record, x.j, ring_of(at(x.record)).hops() - 1}
                  : in.sums.next > place{x.record, x.j, x.i - 1};
}

// -- receiving ----------------------------------------------------------------

/// Adds the local contribution and writes the sum to the memory of the result.
/// The packet can therefore be popped at once, even if the next queue is full.
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

/// into = theirs + the sum of the local replicas.
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

/// True if this process has forwarded the contribution to a chunk, or was the
/// last to add to it. A result that arrives earlier is a protocol error.
bool machine::part_is_sent(const place& sum, std::uint32_t chunk) const {
  const auto way = ring_of(at(sum.record));
  return peers_[way.next(at_.me)].parts_out
         > place{sum.record, sum.j, way.hop_of(chunk, at_.me)};
}

// -- who is missing -----------------------------------------------------------

/// Processes that must add before the expected packet can arrive and are not
/// known to have started. If all have started: the previous process.
std::vector<std::uint32_t> machine::silent_in_ring(const record& x) const {
  const auto way = ring_of(x);
  const auto before = before_me();
  // all packets before this one were received
  auto due = peers_[before].parts.next;
  const bool part = next_part(due, before, at_.me) && due.record == complete_;
  // number of preceding processes that are known to have started
  std::uint32_t begun = 0;
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
