// Measures a lane between two processes of one host: the round-trip time of one
// packet, and the time to move a buffer. Buffers move first in one direction,
// then in both directions at once.

#include "troupe/benchmarks/timing.hpp"
#include "troupe/net/io/socket_stream.hpp"
#include "troupe/net/transport/lane_set.hpp"

#include <CLI/CLI.hpp>
#include <arpa/inet.h>
#include <cstdio>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace net = troupe::net;
using troupe::benchmarks::seconds_since;

namespace {

struct settings {
  std::string transport = "shm";
  bool sleeps = false;
  std::uint32_t slots = 16;
  std::size_t mib = 64;
  std::size_t pings = 20'000;
  int rounds = 7;
};

std::array<int, 2> tcp_pair() {
  const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic_address = reinterpret_cast<sockaddr*>(&address);
  const int dialer = ::socket(AF_INET, SOCK_STREAM, 0);
  if (::bind(listener, generic_address, size) != 0 || ::listen(listener, 1) != 0
      || ::getsockname(listener, generic_address, &size) != 0
      || ::connect(dialer, generic_address, size) != 0)
    throw std::runtime_error("no connection on loopback");
  const int accepted = ::accept(listener, nullptr, nullptr);
  ::close(listener);
  return {dialer, accepted};
}

/// One of the two processes. The constructor's parameter `begins` is true in
/// the process that sends the first packet, and false in the other process.
class peer {
public:
  peer(const settings& s, net::lane_set lanes, bool begins)
    : settings_{s}, lanes_{std::move(lanes)}, begins_{begins} {}

  /// Returns the mean round-trip time of a packet in each round, in
  /// microseconds.
  std::vector<double> time_round_trips(std::size_t bytes) {
    std::vector<double> times_us;
    source_.resize(bytes);
    for (int round = 0; round < settings_.rounds; ++round) {
      const auto start = troupe::benchmarks::clock::now();
      for (std::size_t i = 0; i < settings_.pings; ++i) {
        if (begins_)
          send();
        receive(source_);
        if (!begins_)
          send();
      }
      times_us.push_back(seconds_since(start) * 1e6
                         / static_cast<double>(settings_.pings));
    }
    return times_us;
  }

  /// Returns the milliseconds of each round. A round ends when both processes
  /// have sent and received everything.
  std::vector<double> time_transfers(std::size_t bytes, bool sends,
                                     bool receives) {
    std::vector<double> times_ms;
    std::vector<std::byte> source(bytes, std::byte{1}),
      target(bytes, std::byte{2});
    for (int round = 0; round < settings_.rounds + 2; ++round) {
      synchronize();
      const auto start = troupe::benchmarks::clock::now();
      transfer(source, target, sends ? 0 : bytes, receives ? 0 : bytes);
      synchronize();
      if (round >= 2) // the first two rounds warm up the memory
        times_ms.push_back(seconds_since(start) * 1e3);
    }
    return times_ms;
  }

private:
  net::lane& lane() { return *lanes_.lanes.front(); }

  void synchronize() {
    source_.resize(1);
    if (begins_)
      send();
    receive(source_);
    if (!begins_)
      send();
  }

  void send() {
    while (!lane().post(header_, source_))
      wait();
    while (!lane().flush())
      wait();
  }

  void receive(std::span<std::byte> target) {
    while (lane().front() == nullptr)
      wait();
    while (!lane().fetch(target))
      wait();
    lane().pop();
  }

  void transfer(std::span<const std::byte> source, std::span<std::byte> target,
                std::size_t sent, std::size_t received) {
    while (sent < source.size() || received < target.size()
           || !lane().flush()) {
      const auto out = source.subspan(
        sent, std::min(net::max_packet_bytes, source.size() - sent));
      bool moved = !out.empty() && lane().post(header_, out);
      sent += moved ? out.size() : 0;
      if (received < target.size() && lane().front() != nullptr
          && lane().fetch(target.subspan(received))) {
        received += lane().front_bytes();
        lane().pop();
        moved = true;
      }
      if (!moved)
        wait();
    }
  }

  void wait() {
    if (lane().closed() && lane().front() == nullptr)
      throw std::runtime_error(lane().closed()->reason);
    if (!settings_.sleeps)
      return __builtin_ia32_pause();
    net::lane* const all[]{&lane()};
    net::wait_any(all, std::chrono::milliseconds{100}, watched_);
  }

  const settings& settings_;
  net::lane_set lanes_;
  bool begins_;
  net::packet_header header_{};
  std::vector<std::byte> source_;
  std::vector<pollfd> watched_;
};

void print(const char* label, const char* unit, const std::vector<double>& xs) {
  const auto s = troupe::benchmarks::summarize(xs);
  std::printf("  %-22s %9.2f %s  (%.2f to %.2f)\n", label, s.median, unit,
              s.min, s.max);
}

void measure(peer& self, const settings& s, bool prints) {
  const auto show = [&](const char* label, const char* unit,
                        const std::vector<double>& xs) {
    if (prints)
      print(label, unit, xs);
  };
  const auto bytes = s.mib << 20;
  show("64 B round trip", "us", self.time_round_trips(64));
  show("4 KiB round trip", "us", self.time_round_trips(4096));
  show("buffers, one way", "ms", self.time_transfers(bytes, prints, !prints));
  show("buffers, both ways", "ms", self.time_transfers(bytes, true, true));
}

void run(const settings& s) {
  const auto sockets = tcp_pair();
  const auto child = ::fork();
  const std::size_t rank = child == 0 ? 1 : 0;
  ::close(sockets[1 - rank]);
  const net::lane_options options{.policy = s.transport == "shm"
                                              ? net::lane_policy::shm
                                              : net::lane_policy::stream,
                                  .is_dialer = rank == 0,
                                  .slots = s.slots};
  std::vector<std::unique_ptr<net::stream>> streams;
  streams.push_back(net::wrap_socket(sockets[rank]));
  peer self{s, net::open_lanes(std::move(streams), options), rank == 0};
  if (rank == 0)
    std::printf("%s, %s, %u slots, %zu MiB\n", s.transport.c_str(),
                s.sleeps ? "sleeping" : "polling", s.slots, s.mib);
  measure(self, s, rank == 0);
  if (rank == 1)
    ::_exit(0);
  ::waitpid(child, nullptr, 0);
}

} // namespace

int main(int argc, char** argv) {
  settings s;
  CLI::App app{"Measures packets between two processes of one host"};
  app.add_option("--transport", s.transport)
    ->check(CLI::IsMember({"shm", "tcp"}));
  app.add_flag("--sleep", s.sleeps, "Wait in poll instead of a loop");
  app.add_option("--slots", s.slots)->check(CLI::Range(2, 256));
  app.add_option("--mib", s.mib)->check(CLI::Range(1, 4096));
  app.add_option("--pings", s.pings)->check(CLI::Range(1, 10'000'000));
  app.add_option("--rounds", s.rounds)->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  try {
    run(s);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_lanes: %s\n", e.what());
    return 1;
  }
}
