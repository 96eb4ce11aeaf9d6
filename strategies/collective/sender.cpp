#include "troupe/strategies/collective/state_machine.hpp"
#include "troupe/strategies/tree/fold.hpp"

#include <algorithm>

namespace troupe::exchange {

/// Adds the contributions of some local replicas to one chunk.
void machine::fold_own(const record& x, range of, std::uint32_t chunk,
                       std::span<std::byte> into) {
  const auto begin = x.chunks.each * chunk * size_of(x.spec.type);
  const auto run = [&]<class T>(T) {
    const auto leaf = [&](std::size_t a, std::size_t b) -> const T* {
      return b - a == 1
               ? reinterpret_cast<const T*>(x.own[a - mine()].raw() + begin)
               : nullptr;
    };
    tree::fold_all(of.begin, of.end, 0, into.size() / sizeof(T),
                   reinterpret_cast<T*>(into.data()), leaf);
  };
  if (x.spec.type == dtype::float32)
    run(float{});
  else
    run(double{});
}

bool machine::send_part(courier& by, std::uint32_t to) {
  auto& next = peers_[to].parts_out;
  if (!next_part(next, at_.me, to))
    return false;
  auto& x = at(next.record);
  const auto what = about_part(next, at_.me, to);
  if (x.what == subject::share)
    return send_piece(by, to, what);
  if (rings(x))
    return send_part_on(by, to, what);
  const auto bytes = bytes_of(x, x.own[what.begin - mine()], what.chunk);
  if (what.end - what.begin == 1) {
    // In an `all_to_all` bucket the sum is known here before the peers have
    // read the contribution, so the contribution must be copied.
    const auto said = write(what);
    if (!(x.chunks.direct ? by.post(to, queue::parts, said, bytes)
                          : by.lend(to, queue::parts, said, bytes)))
      return false;
    lent_ |= !x.chunks.direct;
  } else {
    const auto room = by.room(to, queue::parts);
    if (room.empty())
      return false;
    fold_own(x, {what.begin, what.end}, what.chunk, room.first(bytes.size()));
    by.post(to, queue::parts, write(what), bytes.size());
  }
  if (++next.i == subtrees_[at_.me].size() && x.chunks.direct)
    kept(x);
  return true;
}

bool machine::send_piece(courier& by, std::uint32_t to, const parcel& x) {
  auto& next = peers_[to].parts_out;
  const auto& part = at(next.record).own[x.begin - mine()];
  const auto done = next.i == 0 ? 0 : std::size_t{next.i - 1} * most_bytes;
  const auto size = std::min(most_bytes, part.bytes() - done);
  const auto spec = write(part.spec());
  if (!by.post(to, queue::parts, write(x),
               next.i == 0
                 ? std::span<const std::byte>{spec}
                 : std::span<const std::byte>{part.raw() + done, size}))
    return false;
  const bool last =
    next.i == 0 ? part.bytes() == 0 : done + size == part.bytes();
  next = last ? place{next.record, next.j + 1, 0}
              : place{next.record, next.j, next.i + 1};
  return true;
}

bool machine::send_sum(courier& by, std::uint32_t to) {
  auto& next = peers_[to].sums_out;
  if (!next_sum(next, at_.me, to))
    return false;
  const auto& x = at(next.record);
  if (rings(x) ? !may_send_sum(next) : next >= place{added_.record, added_.j})
    return false;
  const auto what = about_sum(next, at_.me);
  const auto said = write(what);
  const auto bytes = bytes_of(x, x.whole, what.chunk);
  if (!(rings(x) ? by.post(to, queue::sums, said, bytes)
                 : by.lend(to, queue::sums, said, bytes)))
    return false;
  lent_ |= !rings(x);
  ++(rings(x) ? next.i : next.j);
  return true;
}

bool machine::pump(courier& by) {
  if (over_ || wrong_ || epoch_ == 0)
    return false;
  bool moved = false;
  const auto all = at_.processes();
  for (std::uint32_t i = 1; i < all; ++i) {
    const auto p = (at_.me + i) % all;
    moved |= take_sum(by, p);
    moved |= take_part(by, p);
  }
  moved |= add(by);
  for (std::uint32_t i = 1; i < all; ++i) {
    const auto p = (at_.me + i) % all;
    moved |= send_sum(by, p);
    moved |= send_part(by, p);
  }
  return moved && !wrong_;
}

} // namespace troupe::exchange
