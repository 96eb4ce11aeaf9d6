#include "troupe/strategies/collective/state_machine.hpp"
#include "troupe/strategies/tree/fold.hpp"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace troupe::exchange {

void machine::blame(std::uint32_t process, std::string why) {
  if (!wrong_)
    wrong_ = fault{process, std::move(why)};
}

/// Compares the front packet of a queue with the expected header. Null
/// `expected`: no packet is expected yet.
machine::verdict machine::judge(courier& by, std::uint32_t from, queue q,
                                const parcel* due) {
  const auto* front = by.front(from, q);
  if (!front)
    return verdict::later;
  const auto got = read(*front);
  if (got.epoch > epoch_)
    return verdict::later;
  if (got.epoch < epoch_ || got == in(from, q).last)
    return verdict::old;
  if (!due)
    return verdict::later;
  if (got == *due)
    return verdict::due;
  if (std::tie(got.step, got.exchange) < std::tie(due->step, due->exchange))
    return verdict::old;
  blame(from, difference(got, *due));
  return verdict::wrong;
}

bool machine::sized(courier& by, std::uint32_t from, queue q,
                    std::size_t bytes) {
  const auto there = by.front_bytes(from, q);
  if (there != bytes)
    blame(from, "process " + std::to_string(from) + " sent "
                  + std::to_string(there) + " bytes where "
                  + std::to_string(bytes) + " were expected");
  return there == bytes;
}

/// @returns whether a peer's payload is aligned for its element type. If it is
///          not, a protocol error is set.
bool machine::aligned(std::uint32_t from, const std::byte* at, dtype type) {
  const bool it_is = reinterpret_cast<std::uintptr_t>(at) % size_of(type) == 0;
  if (!it_is)
    blame(from, "process " + std::to_string(from) + " sent "
                  + std::string{to_string(type)}
                  + " at an address that is not aligned");
  return it_is;
}

bool machine::fetch(courier& by, std::uint32_t from, queue q,
                    std::span<std::byte> into, const tensor& keep) {
  auto& x = in(from, q);
  if (x.fetched)
    return true;
  x.into = into;
  x.keep = keep;
  return x.fetched = by.fetch(from, q, into);
}

void machine::pop(courier& by, std::uint32_t from, queue q) {
  auto& x = in(from, q);
  x.last = read(*by.front(from, q));
  by.pop(from, q);
  x.into = {};
  x.keep = {};
  x.fetched = x.here = false;
}

/// Discards a stale front packet.
bool machine::drop(courier& by, std::uint32_t from, queue q) {
  auto& x = in(from, q);
  if (!x.fetched && by.view(from, q).empty()) {
    if (x.into.empty())
      discard_rest(x, by.front_bytes(from, q));
    if (!fetch(by, from, q, x.into, tensor{x.keep}))
      return false;
  }
  pop(by, from, q);
  return true;
}

bool machine::take_sum(courier& by, std::uint32_t from) {
  auto& next = peers_[from].sums.next;
  const bool open = next_sum(next, from, at_.me);
  const auto due = open ? about_sum(next, from) : parcel{};
  const auto what = judge(by, from, queue::sums, open ? &due : nullptr);
  if (what == verdict::old)
    return drop(by, from, queue::sums);
  if (what != verdict::due)
    return false;
  auto& x = at(next.record);
  if (rings(x) && !part_is_sent(next, due.chunk)) {
    blame(from, "process " + std::to_string(from) + " sent " + named(due)
                  + " before this process had added its contribution");
    return false;
  }
  const auto into = bytes_of(x, x.whole, due.chunk);
  if (!sized(by, from, queue::sums, into.size())
      || !fetch(by, from, queue::sums, into, x.whole))
    return false;
  pop(by, from, queue::sums);
  ++(rings(x) ? next.i : next.j);
  kept(x);
  return true;
}

bool machine::take_part(courier& by, std::uint32_t from) {
  auto& mine = peers_[from].parts;
  if (mine.here)
    return false; // other peers' packets of this chunk are still missing
  const bool open = next_part(mine.next, from, at_.me);
  const auto due = open ? about_part(mine.next, from, at_.me) : parcel{};
  const auto what = judge(by, from, queue::parts, open ? &due : nullptr);
  if (what == verdict::old)
    return drop(by, from, queue::parts);
  if (what != verdict::due)
    return false;
  const auto& x = at(mine.next.record);
  if (x.what == subject::share)
    return take_share(by, from, due);
  if (rings(x))
    return take_part_on(by, from, due);
  const auto bytes = bytes_of(x, x.whole, due.chunk).size();
  if (!sized(by, from, queue::parts, bytes))
    return false;
  const bool last = mine.next.i + 1 == subtrees_[from].size();
  auto view = last ? by.view(from, queue::parts) : std::span<const std::byte>{};
  if (view.empty()) {
    auto& kept = scratch_[due.begin];
    if (!kept)
      kept = tensor{shape{std::int64_t(most_bytes)}, dtype::uint8};
    const std::span into{kept.raw(), bytes};
    if (!fetch(by, from, queue::parts, into, kept))
      return false;
    view = into;
  }
  if (!aligned(from, view.data(), x.spec.type))
    return false;
  leaves_[due.begin] = view.data();
  if (last) {
    mine.here = true;
  } else {
    pop(by, from, queue::parts);
    ++mine.next.i;
  }
  return true;
}

bool machine::take_share(courier& by, std::uint32_t from, const parcel& due) {
  auto& mine = peers_[from].parts;
  auto& x = at(mine.next.record);
  auto& all = x.all[due.begin];
  if (due.chunk == 0) {
    if (!sized(by, from, queue::parts, mine.spec.size())
        || !fetch(by, from, queue::parts, mine.spec, {}))
      return false;
    tensor_spec spec;
    if (!read(mine.spec, spec)) {
      blame(from, "process " + std::to_string(from)
                    + " sent a contribution to gather "
                    + std::to_string(due.bucket)
                    + " whose tensor spec is invalid or too large");
      return false;
    }
    all = tensor{spec};
  } else {
    const auto done = std::size_t{due.chunk - 1} * most_bytes;
    const auto size = std::min(most_bytes, all.bytes() - done);
    if (!sized(by, from, queue::parts, size)
        || !fetch(by, from, queue::parts, {all.raw() + done, size}, all))
      return false;
  }
  pop(by, from, queue::parts);
  ++mine.next.i;
  if (std::size_t{due.chunk} * most_bytes >= all.bytes()) {
    mine.next = {mine.next.record, mine.next.j + 1, 0};
    kept(x);
  }
  return true;
}

/// Adds all contributions to a chunk. @pre all of them have arrived.
void machine::fold(record& x, std::uint32_t chunk) {
  const auto into = bytes_of(x, x.whole, chunk);
  const auto offset = into.data() - x.whole.raw();
  const bool in_place = x.whole.raw() == x.own[0].raw();
  const auto run = [&]<class T>(T) {
    const auto leaf = [&](std::size_t a, std::size_t b) -> const T* {
      const auto p = owners_[a];
      if (b > at_.first[p + 1])
        return nullptr;
      if (p != at_.me)
        return reinterpret_cast<const T*>(leaves_[a]);
      return b - a == 1
               ? reinterpret_cast<const T*>(x.own[a - mine()].raw() + offset)
               : nullptr;
    };
    auto* out = reinterpret_cast<T*>(into.data());
    const auto elements = into.size() / sizeof(T);
    // each element is read before it is written
    if (!in_place || at_.replicas() == 2)
      return tree::fold_all(0, at_.replicas(), 0, elements, out, leaf);
    alignas(64) T sum[tree::block];
    for (std::size_t at = 0; at < elements; at += tree::block) {
      const auto n = std::min(tree::block, elements - at);
      const auto* stands = tree::fold(0, at_.replicas(), at, n, sum, leaf);
      if (stands != out + at)
        std::memcpy(out + at, stands, n * sizeof(T));
    }
  };
  if (x.spec.type == dtype::float32)
    run(float{});
  else
    run(double{});
}

/// Adds the next chunk if all contributions to it have arrived.
bool machine::add(courier& by) {
  if (!next_added(added_))
    return false;
  for (std::uint32_t p = 0; p < at_.processes(); ++p) {
    const auto& parts = peers_[p].parts;
    if (p != at_.me
        && (!parts.here || parts.next.record != added_.record
            || parts.next.j != added_.j))
      return false;
  }
  auto& x = at(added_.record);
  fold(x, chunk_of(x, at_.me, added_.j));
  for (std::uint32_t p = 0; p < at_.processes(); ++p)
    if (p != at_.me) {
      pop(by, p, queue::parts);
      ++peers_[p].parts.next.i;
    }
  ++added_.j;
  kept(x);
  return true;
}

} // namespace troupe::exchange
