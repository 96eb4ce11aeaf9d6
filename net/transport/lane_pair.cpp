#include "troupe/net/transport/lane_pair.hpp"

#include "troupe/net/base/text.hpp"
#include "troupe/net/lanes/stream_lane.hpp"
#include "troupe/net/security/hmac.hpp"
#include "troupe/net/shm/descriptor_exchange.hpp"
#include "troupe/net/shm/shm_lane.hpp"
#include "troupe/net/transport/message_stream.hpp"

#include <algorithm>
#include <fstream>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace troupe::net {

namespace {

constexpr std::uint32_t version = 3;

/// State of the shared memory setup in this process.
struct attempt {
  std::optional<shm_segment> mine;
  std::optional<passed> came;
  std::shared_ptr<shm_ground> ground;
  std::string why; ///< Reason why it failed. Empty: it has not.

  /// Runs a step unless one has failed before. A failure is kept, because it is
  /// sent to the peer.
  template <class Fn>
  void dare(Fn&& fn) {
    try {
      if (why.empty())
        fn();
    } catch (const std::exception& e) {
      why = e.what();
    }
  }
};

template <std::size_t Size>
std::vector<std::uint8_t> numbers_in(const std::array<std::byte, Size>& x) {
  std::vector<std::uint8_t> bytes(Size);
  std::memcpy(bytes.data(), x.data(), Size);
  return bytes;
}

class negotiation {
public:
  negotiation(stream& over, const channel_options& options)
    : talk_{over, talk::clock::now() + options.patience},
      options_{options},
      bell_{options.my_bell} {}

  /// @returns null if streams are used.
  std::shared_ptr<shm_ground> agree(std::string& why);

private:
  std::shared_ptr<shm_ground> share(std::string& why);
  void meet_as_host(attempt& x);
  void meet_as_visitor(attempt& x);
  void prove(attempt& x);
  offered offer(const attempt& x) const;

  talk talk_;
  const channel_options& options_;
  std::shared_ptr<bell> bell_;
  std::uint32_t their_slots_ = 0;
};

std::shared_ptr<shm_ground> negotiation::agree(std::string& why) {
  talk_.say(version);
  std::uint32_t their_version = 0;
  talk_.hear(their_version);
  if (their_version != version)
    throw std::runtime_error("lane negotiation: the peer uses version "
                             + std::to_string(their_version) + ", but "
                             + std::to_string(version) + " is supported here");
  const auto host = options_.host.empty() ? host_identity() : options_.host;
  talk_.say(options_.policy, options_.slots, host);
  auto policy = lane_policy::automatic;
  std::string their_host;
  talk_.hear(policy, their_slots_, their_host);

  const auto either = [&](lane_policy x) {
    return options_.policy == x || policy == x;
  };
  const bool insists = either(lane_policy::shm);
  if (insists && either(lane_policy::stream))
    throw std::runtime_error("one of the processes requires shared memory and "
                             "the other requires streams; give both the same "
                             "transport, or auto");
  if (either(lane_policy::stream))
    return nullptr;
  std::shared_ptr<shm_ground> ground;
  if (host.empty() || host != their_host)
    why = "the processes are not on one host";
  else if (their_slots_ < least_slots || their_slots_ > most_slots)
    why = "the peer asks for " + std::to_string(their_slots_) + " slots";
  else
    ground = share(why);
  if (!ground && insists)
    throw std::runtime_error("no shared memory with the peer: " + why);
  return ground;
}

std::shared_ptr<shm_ground> negotiation::share(std::string& why) {
  attempt x;
  if (options_.dialed)
    meet_as_visitor(x);
  else
    meet_as_host(x);
  if (x.came)
    prove(x);
  why = printable(x.why); // it may come from the peer
  return x.why.empty() ? x.ground : nullptr;
}

/// A side continues only after the other has reported success.
void negotiation::meet_as_host(attempt& x) {
  std::optional<meeting_place> place;
  x.dare([&] {
    bell_ = bell_ ? bell_ : std::make_shared<bell>();
    x.mine.emplace(options_.slots);
    fill_randomly(x.mine->header().nonce);
    place.emplace();
  });
  talk_.say(place ? place->name() : std::string{},
            numbers_in(place ? place->token() : meeting_token{}), x.why);
  if (!x.why.empty())
    return;
  talk_.hear(x.why);
  if (!x.why.empty())
    return;
  x.dare([&] { x.came = place->welcome(offer(x)); });
  talk_.say(x.why);
}

void negotiation::meet_as_visitor(attempt& x) {
  std::string name;
  std::vector<std::uint8_t> numbers;
  talk_.hear(name, numbers, x.why);
  if (!x.why.empty())
    return;
  std::optional<visit> there;
  x.dare([&] {
    bell_ = bell_ ? bell_ : std::make_shared<bell>();
    x.mine.emplace(options_.slots);
    fill_randomly(x.mine->header().nonce);
    meeting_token token{};
    std::memcpy(token.data(), numbers.data(),
                std::min(numbers.size(), token.size()));
    there.emplace(name, token, offer(x));
  });
  talk_.say(x.why);
  if (!x.why.empty())
    return;
  talk_.hear(x.why);
  // The acceptor waits for the mapping proof even if descriptors are missing.
  if (x.why.empty())
    x.came.emplace();
  x.dare([&] { x.came = there->received(); });
}

offered negotiation::offer(const attempt& x) const {
  const auto& arena = options_.my_arena;
  return {x.mine->descriptor(), bell_->descriptor(),
          arena ? arena->descriptor() : -1};
}

/// Maps the peer's arena. If there is none, or no addresses are left for it,
/// the peer copies what it sends.
void look_into(const passed& came, shm_ground& ground) {
  try {
    if (came.arena)
      ground.their_arena.emplace(came.arena.get());
  } catch (const std::runtime_error&) {
    ground.their_arena.reset();
  }
}

/// Sends the nonce that is read in the peer's segment: only the peer knows what
/// it wrote there.
void negotiation::prove(attempt& x) {
  shm_nonce seen{};
  x.dare([&] {
    shm_view theirs{x.came->memory.get(), their_slots_};
    seen = theirs.header().nonce;
    x.ground.reset(new shm_ground{std::move(*x.mine), std::move(theirs), bell_,
                                  std::move(x.came->bell)});
    look_into(*x.came, *x.ground);
  });
  const bool see = x.ground && x.ground->their_arena;
  talk_.say(numbers_in(seen), see, x.why);
  std::vector<std::uint8_t> said;
  bool they_see = false;
  std::string their_why;
  talk_.hear(said, they_see, their_why);
  x.dare([&] {
    if (!their_why.empty())
      throw std::runtime_error(their_why);
    if (!is_same(std::as_bytes(std::span{said}), x.ground->mine.header().nonce))
      throw std::runtime_error("the peer mapped another segment");
    if (they_see)
      x.ground->my_arena = options_.my_arena;
  });
  talk_.say(x.why);
  talk_.hear(their_why);
  if (x.why.empty())
    x.why = their_why;
}

bool is_loopback(int socket) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) != 0)
    return false;
  if (peer.ss_family == AF_INET) {
    const auto& x = reinterpret_cast<const sockaddr_in&>(peer);
    return ntohl(x.sin_addr.s_addr) >> 24 == 127;
  }
  const auto& x = reinterpret_cast<const sockaddr_in6&>(peer);
  return peer.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&x.sin6_addr);
}

/// Selects a congestion control without pacing: BBR's pacing only costs time on
/// loopback.
void hurry_on_loopback(int socket) {
  constexpr char unpaced[] = "reno"; // every kernel has it
  if (is_loopback(socket))
    ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, unpaced, sizeof unpaced);
}

} // namespace

channel open_channel(std::unique_ptr<stream> parts,
                     std::unique_ptr<stream> sums,
                     const channel_options& options) {
  if (options.slots < least_slots || options.slots > most_slots)
    throw std::invalid_argument("slots " + std::to_string(options.slots)
                                + " is not in [" + std::to_string(least_slots)
                                + ", " + std::to_string(most_slots) + "]");
  channel x;
  const auto ground = negotiation{*parts, options}.agree(x.why_no_shm);
  if (ground) {
    x.parts = std::make_unique<shm_lane>(ground, 0, std::move(parts));
    x.sums = std::make_unique<shm_lane>(ground, 1, std::move(sums));
  } else {
    hurry_on_loopback(parts->descriptor());
    hurry_on_loopback(sums->descriptor());
    x.parts = std::make_unique<stream_lane>(std::move(parts));
    x.sums = std::make_unique<stream_lane>(std::move(sums));
  }
  x.transport = ground ? "shm" : options.over;
  return x;
}

std::string host_identity() {
  std::string boot;
  std::ifstream{"/proc/sys/kernel/random/boot_id"} >> boot;
  char network[64];
  const auto size = ::readlink("/proc/self/ns/net", network, sizeof network);
  if (boot.empty() || size <= 0)
    return {};
  return boot + ' ' + std::string(network, static_cast<std::size_t>(size));
}

} // namespace troupe::net
