#include "troupe/net/transport/lane_set.hpp"

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

constexpr std::uint32_t version = 5;

/// Results of setting up shared memory in this process.
struct shm_setup {
  std::optional<shm_segment> segment;
  std::optional<received_descriptors> received;
  std::shared_ptr<shm_context> context;
  /// Reason why the setup failed. Empty: it has not failed.
  std::string failure;

  /// Runs `fn` if no step has failed before. If `fn` throws, the text is stored
  /// in `failure`, which is then sent to the peer.
  template <class Fn>
  void try_step(Fn&& fn) {
    try {
      if (failure.empty())
        fn();
    } catch (const std::exception& e) {
      failure = e.what();
    }
  }
};

template <std::size_t Size>
std::vector<std::uint8_t>
to_numbers(const std::array<std::byte, Size>& bytes_in) {
  std::vector<std::uint8_t> bytes(Size);
  std::memcpy(bytes.data(), bytes_in.data(), Size);
  return bytes;
}

class negotiation {
public:
  negotiation(stream& control_stream, std::uint32_t lanes,
              const lane_options& options)
    : messages_{control_stream,
                message_stream::clock::now() + options.handshake_timeout},
      lanes_{lanes},
      options_{options},
      notifier_{options.notifier} {}

  /// Returns the shared memory of the lanes. Null: the lanes use the streams.
  /// `reason` is set if shared memory was allowed but failed.
  std::shared_ptr<shm_context> run(std::string& reason);

private:
  std::shared_ptr<shm_context> set_up_shm(std::string& reason);
  void negotiate_as_acceptor(shm_setup& setup);
  void negotiate_as_connector(shm_setup& setup);
  void verify_mapping(shm_setup& setup);
  descriptor_set own_descriptors(const shm_setup& setup) const;

  message_stream messages_;
  std::uint32_t lanes_;
  const lane_options& options_;
  std::shared_ptr<event_notifier> notifier_;
  std::uint32_t peer_slots_ = 0;
};

std::shared_ptr<shm_context> negotiation::run(std::string& reason) {
  messages_.send(version);
  std::uint32_t peer_version = 0;
  messages_.receive(peer_version);
  if (peer_version != version)
    throw std::runtime_error("lane negotiation: the peer uses version "
                             + std::to_string(peer_version) + ", but "
                             + std::to_string(version) + " is supported here");
  const auto own_host = options_.host.empty() ? host_identity() : options_.host;
  messages_.send(options_.policy, lanes_, options_.slots, own_host);
  auto peer_policy = lane_policy::automatic;
  std::uint32_t peer_lanes = 0;
  std::string peer_host;
  messages_.receive(peer_policy, peer_lanes, peer_slots_, peer_host);
  if (peer_lanes != lanes_)
    throw std::runtime_error("the peer opens " + std::to_string(peer_lanes)
                             + " lanes, but this process opens "
                             + std::to_string(lanes_)
                             + "; run the same version of the program in both");

  const auto either = [&](lane_policy x) {
    return options_.policy == x || peer_policy == x;
  };
  const bool shm_required = either(lane_policy::shm);
  if (shm_required && either(lane_policy::stream))
    throw std::runtime_error("one of the processes requires shared memory and "
                             "the other requires streams; give both the same "
                             "transport, or auto");
  if (either(lane_policy::stream))
    return nullptr;
  std::shared_ptr<shm_context> context;
  if (own_host.empty() || own_host != peer_host)
    reason = "the processes are not on one host";
  else if (peer_slots_ < min_slots || peer_slots_ > max_slots)
    reason = "the peer asks for " + std::to_string(peer_slots_) + " slots";
  else
    context = set_up_shm(reason);
  if (!context && shm_required)
    throw std::runtime_error("no shared memory with the peer: " + reason);
  return context;
}

std::shared_ptr<shm_context> negotiation::set_up_shm(std::string& reason) {
  shm_setup setup;
  if (options_.is_dialer)
    negotiate_as_connector(setup);
  else
    negotiate_as_acceptor(setup);
  if (setup.received)
    verify_mapping(setup);
  reason = printable(setup.failure); // the peer may have sent the text
  return setup.failure.empty() ? setup.context : nullptr;
}

/// Exchanges descriptors with the peer. Each side goes on to its next step only
/// after the other side has reported success.
void negotiation::negotiate_as_acceptor(shm_setup& setup) {
  std::optional<descriptor_acceptor> fd_acceptor;
  setup.try_step([&] {
    notifier_ = notifier_ ? notifier_ : std::make_shared<event_notifier>();
    setup.segment.emplace(lanes_, options_.slots);
    random_bytes(setup.segment->header().nonce);
    fd_acceptor.emplace();
  });
  messages_.send(
    fd_acceptor ? fd_acceptor->name() : std::string{},
    to_numbers(fd_acceptor ? fd_acceptor->token() : exchange_token{}),
    setup.failure);
  if (!setup.failure.empty())
    return;
  messages_.receive(setup.failure);
  if (!setup.failure.empty())
    return;
  setup.try_step(
    [&] { setup.received = fd_acceptor->accept(own_descriptors(setup)); });
  messages_.send(setup.failure);
}

void negotiation::negotiate_as_connector(shm_setup& setup) {
  std::string name;
  std::vector<std::uint8_t> numbers;
  messages_.receive(name, numbers, setup.failure);
  if (!setup.failure.empty())
    return;
  std::optional<descriptor_connector> fd_connector;
  setup.try_step([&] {
    notifier_ = notifier_ ? notifier_ : std::make_shared<event_notifier>();
    setup.segment.emplace(lanes_, options_.slots);
    random_bytes(setup.segment->header().nonce);
    exchange_token token{};
    std::memcpy(token.data(), numbers.data(),
                std::min(numbers.size(), token.size()));
    fd_connector.emplace(name, token, own_descriptors(setup));
  });
  messages_.send(setup.failure);
  if (!setup.failure.empty())
    return;
  messages_.receive(setup.failure);
  // If `setup.failure` is empty, the acceptor has succeeded, and waits for the
  // messages that `verify_mapping` sends. This process must send them even if
  // `fd_connector->receive` throws. `set_up_shm` calls `verify_mapping` only if
  // `setup.received` has a value, so it gets a value before that call.
  if (setup.failure.empty())
    setup.received.emplace();
  setup.try_step([&] { setup.received = fd_connector->receive(); });
}

descriptor_set negotiation::own_descriptors(const shm_setup& setup) const {
  const auto& arena = options_.arena;
  return {setup.segment->descriptor(), notifier_->descriptor(),
          arena ? arena->descriptor() : -1};
}

/// Maps the peer's arena, if it has one. If the mapping fails, for example for
/// lack of addresses, the peer copies all payloads.
void map_peer_arena(const received_descriptors& received,
                    shm_context& context) {
  try {
    if (received.arena)
      context.peer_arena.emplace(received.arena.get());
  } catch (const std::runtime_error&) {
    context.peer_arena.reset();
  }
}

/// Maps the peer's segment and arena, and verifies that the peer has mapped
/// this process's segment. Each side sends the nonce that it reads in the
/// other's segment; only a process that has mapped the segment knows this
/// nonce.
void negotiation::verify_mapping(shm_setup& setup) {
  shm_nonce peer_nonce{};
  setup.try_step([&] {
    shm_view theirs{setup.received->segment.get(), lanes_, peer_slots_};
    peer_nonce = theirs.header().nonce;
    setup.context.reset(new shm_context{std::move(*setup.segment),
                                        std::move(theirs), notifier_,
                                        std::move(setup.received->notifier)});
    map_peer_arena(*setup.received, *setup.context);
  });
  const bool mapped = setup.context && setup.context->peer_arena;
  messages_.send(to_numbers(peer_nonce), mapped, setup.failure);
  std::vector<std::uint8_t> echoed_nonce;
  bool peer_mapped = false;
  std::string peer_failure;
  messages_.receive(echoed_nonce, peer_mapped, peer_failure);
  setup.try_step([&] {
    if (!peer_failure.empty())
      throw std::runtime_error(peer_failure);
    if (!constant_time_equal(std::as_bytes(std::span{echoed_nonce}),
                             setup.context->own_segment.header().nonce))
      throw std::runtime_error("the peer mapped another segment");
    if (peer_mapped)
      setup.context->own_arena = options_.arena;
  });
  messages_.send(setup.failure);
  messages_.receive(peer_failure);
  if (setup.failure.empty())
    setup.failure = peer_failure;
}

bool is_loopback(int socket) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &size) != 0)
    return false;
  if (peer.ss_family == AF_INET) {
    const auto& address = reinterpret_cast<const sockaddr_in&>(peer);
    return ntohl(address.sin_addr.s_addr) >> 24 == 127;
  }
  const auto& address = reinterpret_cast<const sockaddr_in6&>(peer);
  return peer.ss_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&address.sin6_addr);
}

void check_range(const std::string& name, std::size_t value, std::size_t min,
                 std::size_t max) {
  if (value < min || value > max)
    throw std::invalid_argument(name + " " + std::to_string(value)
                                + " is not in [" + std::to_string(min) + ", "
                                + std::to_string(max) + "]");
}

/// Selects a TCP congestion control without pacing for a loopback connection.
/// BBR, the default of some hosts, delays packets (pacing), which only costs
/// time on loopback.
void disable_pacing_on_loopback(int socket) {
  constexpr char unpaced[] = "reno"; // built into every kernel
  if (is_loopback(socket))
    ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, unpaced, sizeof unpaced);
}

} // namespace

lane_set open_lanes(std::vector<std::unique_ptr<stream>> streams,
                    const lane_options& options) {
  check_range("slots", options.slots, min_slots, max_slots);
  check_range("number of lanes", streams.size(), 1, max_lanes);
  lane_set opened;
  const auto context =
    negotiation{*streams.front(), static_cast<std::uint32_t>(streams.size()),
                options}
      .run(opened.shm_unavailable_reason);
  for (auto& x : streams) {
    if (context) {
      opened.lanes.push_back(
        std::make_unique<shm_lane>(context, opened.lanes.size(), std::move(x)));
    } else {
      disable_pacing_on_loopback(x->descriptor());
      opened.lanes.push_back(std::make_unique<stream_lane>(std::move(x)));
    }
  }
  opened.transport = context ? "shm" : options.stream_transport;
  return opened;
}

std::string host_identity() {
  std::string boot_id;
  std::ifstream{"/proc/sys/kernel/random/boot_id"} >> boot_id;
  char network_namespace[64];
  const auto size = ::readlink("/proc/self/ns/net", network_namespace,
                               sizeof network_namespace);
  if (boot_id.empty() || size <= 0)
    return {};
  return boot_id + ' '
         + std::string(network_namespace, static_cast<std::size_t>(size));
}

} // namespace troupe::net
