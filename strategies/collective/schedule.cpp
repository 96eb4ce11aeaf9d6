#include "troupe/strategies/collective/state_machine.hpp"

#include <algorithm>

// Order of packets in each queue. Sender and receiver compute the same order.

namespace troupe::exchange {

/// The j-th chunk that a process adds. An `all_to_all` bucket has one chunk,
/// and every process adds it.
std::uint32_t machine::chunk_of(const record& x, std::uint32_t adder,
                                std::uint32_t j) const {
  const auto all = at_.processes();
  return x.chunks.direct ? j : (adder + all - x.k % all) % all + j * all;
}

bool machine::has_chunk(const record& x, std::uint32_t adder,
                        std::uint32_t j) const {
  return chunk_of(x, adder, j) < x.chunks.count;
}

/// Skips cursor positions that do not exist.
/// @returns false if the next operation has not started here.
bool machine::next_part(place& x, std::uint32_t from, std::uint32_t to) const {
  for (; x.record < ready_; x = {x.record + 1, 0, 0}) {
    const auto& r = at(x.record);
    if (r.what == subject::share) {
      if (x.j < at_.count(from))
        return true;
      continue;
    }
    if (rings(r)) {
      if (next_hop(x, r.what, from, to))
        return true;
      continue;
    }
    if (x.i == subtrees_[from].size())
      x = {x.record, x.j + 1, 0};
    if (has_chunk(r, to, x.j))
      return true;
  }
  return false;
}

bool machine::next_sum(place& x, std::uint32_t from, std::uint32_t to) const {
  for (; x.record < ready_; x = {x.record + 1, 0, 0}) {
    const auto& r = at(x.record);
    if (rings(r) ? next_hop(x, subject::sum, from, to)
                 : r.what != subject::share && !r.chunks.direct
                     && has_chunk(r, from, x.j))
      return true;
  }
  return false;
}

bool machine::next_added(place& x) const {
  for (; x.record < ready_; x = {x.record + 1, 0, 0}) {
    const auto& r = at(x.record);
    if (r.what != subject::share && !rings(r) && has_chunk(r, at_.me, x.j))
      return true;
  }
  return false;
}

// -- headers ------------------------------------------------------------------

parcel machine::about(const record& x, subject what, std::uint32_t from) const {
  parcel out;
  out.epoch = epoch_;
  out.step = x.step;
  out.exchange = x.k;
  out.bucket = x.bucket;
  out.from = from;
  out.what = what;
  if (what != subject::share) {
    out.elements = x.spec.dims.elements();
    out.type = x.spec.type;
  }
  out.way = x.said.way;
  out.timeout = x.said.timeout;
  out.bytes_per_pack = x.said.bytes_per_pack;
  return out;
}

parcel machine::about_part(const place& x, std::uint32_t from,
                           std::uint32_t to) const {
  const auto& r = at(x.record);
  auto out = about(r, r.what, from);
  if (r.what == subject::share) {
    out.begin = at_.first[from] + x.j;
    out.end = out.begin + 1;
    out.chunk = x.i;
  } else if (rings(r)) {
    out.chunk = chunk_at(x, subject::part, from);
    out.begin = at_.first[ring_of(r).first_of(out.chunk)];
    out.end = at_.first[from + 1];
  } else {
    out.begin = subtrees_[from][x.i].begin;
    out.end = subtrees_[from][x.i].end;
    out.chunk = chunk_of(r, to, x.j);
  }
  return out;
}

parcel machine::about_sum(const place& x, std::uint32_t from) const {
  const auto& r = at(x.record);
  auto out = about(r, subject::sum, from);
  out.end = at_.replicas();
  out.chunk =
    rings(r) ? chunk_at(x, subject::sum, from) : chunk_of(r, from, x.j);
  return out;
}

std::span<std::byte> machine::bytes_of(const record& x, const tensor& in,
                                       std::uint32_t chunk) const {
  const auto size = size_of(x.spec.type);
  const auto begin = x.chunks.each * chunk * size;
  return {in.raw() + begin, std::min(x.chunks.each * size, in.bytes() - begin)};
}

// -- who is missing -----------------------------------------------------------

/// Finds a peer that has not accepted its packets although all operations are
/// complete.
std::optional<lack> machine::owed(std::uint64_t step) const {
  lack out;
  for (std::uint32_t p = 0; p < at_.processes(); ++p)
    for (const auto* x : {&peers_[p].parts_out, &peers_[p].sums_out}) {
      if (p == at_.me || x->record >= ready_ || at(x->record).step != step)
        continue;
      out.bucket = at(x->record).bucket;
      out.processes = {p};
      for (auto r = at_.first[p]; r < at_.first[p + 1]; ++r)
        out.replicas.push_back(r);
      return out;
    }
  return std::nullopt;
}

std::optional<lack> machine::lacking(std::uint64_t step) const {
  if (complete_ >= base_ + records_.size() || at(complete_).step != step)
    return owed(step);
  const auto& x = at(complete_);
  lack out{x.what == subject::share, x.bucket, {}, {}};
  for (std::uint32_t i = 0; i < locals(); ++i)
    if (members_[i].epoch != epoch_ || members_[i].next <= complete_)
      out.replicas.push_back(mine() + i);
  if (!out.replicas.empty()) {
    out.processes = {at_.me};
    return out;
  }
  const auto late = [&](const incoming& in) {
    return in.next.record == complete_ && !in.here;
  };
  if (rings(x))
    out.processes = silent_in_ring(x);
  for (const auto queue : {&peer::parts, &peer::sums}) {
    if (!out.processes.empty())
      break; // results wait for contributions
    for (std::uint32_t p = 0; p < at_.processes(); ++p)
      if (p != at_.me && late(peers_[p].*queue))
        out.processes.push_back(p);
  }
  if (out.processes.empty())
    return owed(step);
  for (const auto p : out.processes)
    for (auto r = at_.first[p] + (out.gather ? peers_[p].parts.next.j : 0);
         r < at_.first[p + 1]; ++r)
      out.replicas.push_back(r);
  return out;
}

// -- texts --------------------------------------------------------------------

namespace {

std::string elements_of(const parcel& x) {
  return x.what == subject::share
           ? "gather " + std::to_string(x.bucket)
           : "bucket " + std::to_string(x.bucket) + " of "
               + std::to_string(x.elements) + " elements";
}

std::string type_of(const parcel& x) {
  return static_cast<std::size_t>(x.type) < dtype_count
           ? std::string{to_string(x.type)}
           : "an unknown type";
}

} // namespace

std::string machine::named(const parcel& x) {
  const auto piece = x.what == subject::share ? "piece " : "chunk ";
  const auto of = x.what == subject::sum    ? "the result of "
                  : x.what == subject::part ? "a contribution to "
                                            : "";
  return of + std::string{piece} + std::to_string(x.chunk) + " of "
         + elements_of(x) + " of replicas [" + std::to_string(x.begin) + ", "
         + std::to_string(x.end) + ")";
}

std::string machine::difference(const parcel& got, const parcel& due) const {
  const auto sent = "process " + std::to_string(due.from) + " sent ";
  const auto step = " was expected in step " + std::to_string(due.step);
  const std::string differ = "the replicas do not call the same collectives";
  const auto on = [](const parcel& x) {
    return elements_of(x) + " " + to_string(x.said());
  };
  if (got.step != due.step || got.exchange != due.exchange)
    return sent + elements_of(got) + " of step " + std::to_string(got.step)
           + " where " + elements_of(due) + step + ": a packet was lost, or "
           + differ;
  if (got.said() != due.said())
    return sent + on(got) + " where " + on(due) + step
           + ": the replicas do not pass the same options";
  if (got.bucket != due.bucket || got.elements != due.elements
      || (got.what == subject::share) != (due.what == subject::share))
    return sent + elements_of(got) + " where " + elements_of(due) + step + ": "
           + differ;
  if (got.type != due.type)
    return sent + elements_of(got) + " of " + type_of(got) + " where "
           + type_of(due) + step + ": " + differ;
  return sent + named(got) + " where " + named(due) + step
         + ": a packet was lost";
}

} // namespace troupe::exchange
