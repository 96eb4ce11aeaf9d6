#include "troupe/actors/collectives/lane_transport.hpp"

#include <stdexcept>

namespace troupe {

namespace {

using clock = std::chrono::steady_clock;

/// Index of the header byte that a fault changes: a byte of the element count.
constexpr std::size_t changed_byte = 20;

subject subject_of(exchange::subject x) {
  switch (x) {
    case exchange::subject::sum:
      return subject::sum;
    case exchange::subject::share:
      return subject::share;
    case exchange::subject::part:
      break;
  }
  return subject::part;
}

} // namespace

struct lane_courier::held {
  exchange::head about;
  std::vector<std::byte> bytes;
  clock::time_point due;
};

lane_courier::lane_courier(const exchange::layout& at,
                           std::vector<peer_lanes> lanes,
                           std::shared_ptr<fault_seam> faults,
                           courier_clock now)
  : at_{at},
    lanes_{std::move(lanes)},
    faults_{std::move(faults)},
    now_{now ? std::move(now) : clock::now},
    held_(at.processes() * std::size_t{2}) {
  if (lanes_.size() != at.processes())
    throw std::logic_error(std::to_string(lanes_.size())
                           + " pairs of lanes for "
                           + std::to_string(at.processes()) + " processes");
  for (std::uint32_t p = 0; p < lanes_.size(); ++p)
    if ((lanes_[p].parts && lanes_[p].sums) != (p != at_.me))
      throw std::logic_error("process " + std::to_string(at_.me) + " has "
                             + (p == at_.me ? "" : "no ") + "lanes to process "
                             + std::to_string(p));
}

lane_courier::~lane_courier() = default;

bool lane_courier::flush() {
  bool all = true;
  for (std::uint32_t p = 0; p < lanes_.size(); ++p)
    all = flush(p) && all;
  return all;
}

bool lane_courier::flush(std::uint32_t to) {
  bool all = true;
  if (to != at_.me)
    for (const auto by : {exchange::queue::parts, exchange::queue::sums})
      all = !blocked(to, by) && of(to, by).flush() && all;
  return all;
}

std::span<std::byte> lane_courier::room(std::uint32_t to, exchange::queue by) {
  return blocked(to, by) ? std::span<std::byte>{} : of(to, by).room();
}

void lane_courier::post(std::uint32_t to, exchange::queue by,
                        const exchange::head& x, std::size_t bytes) {
  auto& lane = of(to, by);
  if (!faults_)
    return lane.post(x, bytes);
  const auto room = lane.room();
  const std::vector<std::byte> copy(room.begin(), room.begin() + bytes);
  post_fated(to, by, x, copy);
}

bool lane_courier::post(std::uint32_t to, exchange::queue by,
                        const exchange::head& x,
                        std::span<const std::byte> bytes) {
  if (!faults_)
    return of(to, by).post(x, bytes);
  if (room(to, by).empty())
    return false;
  return post_fated(to, by, x, bytes);
}

bool lane_courier::lend(std::uint32_t to, exchange::queue by,
                        const exchange::head& x,
                        std::span<const std::byte> bytes) {
  return faults_ ? post(to, by, x, bytes) : of(to, by).lend(x, bytes);
}

/// Decides on the fault of a packet and sends it accordingly.
/// @pre the lane is writable.
bool lane_courier::post_fated(std::uint32_t to, exchange::queue by,
                              exchange::head x,
                              std::span<const std::byte> bytes) {
  const auto about = exchange::read(x);
  const auto fate =
    faults_->decide({party::role::replica, at_.first[at_.me]},
                    {party::role::replica, at_.first[to]},
                    subject_of(about.what), about.epoch, about.step);
  if (fate.dropped)
    return true;
  if (fate.corrupted)
    x[changed_byte] ^= std::byte{1};
  if (fate.twice) // no effect if the lane is not writable
    of(to, by).post(x, bytes);
  if (fate.delay > std::chrono::nanoseconds{0} || !of(to, by).post(x, bytes))
    held_[to * 2 + std::size_t(by)] =
      held{x, {bytes.begin(), bytes.end()}, now_() + fate.delay};
  return true;
}

/// Sends the delayed packet of a lane if it is due.
/// @returns true if it is still held. Later packets of the lane must then wait,
///          because packets stay in order.
bool lane_courier::blocked(std::uint32_t to, exchange::queue by) {
  auto& x = held_[to * 2 + std::size_t(by)];
  if (x && now_() >= x->due && of(to, by).post(x->about, x->bytes))
    x.reset();
  return x.has_value();
}

} // namespace troupe
