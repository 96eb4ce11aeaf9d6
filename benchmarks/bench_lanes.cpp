// Measures packets between two processes of one host: the round-trip time of
// one packet, and the time of a buffer in one direction and in both at once.

#include "troupe/benchmarks/timing.hpp"
#include "troupe/net/io/socket_stream.hpp"
#include "troupe/net/transport/lane_pair.hpp"

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
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  auto* where = reinterpret_cast<sockaddr*>(&at);
  const int dialer = ::socket(AF_INET, SOCK_STREAM, 0);
  if (::bind(listener, where, size) != 0 || ::listen(listener, 1) != 0
      || ::getsockname(listener, where, &size) != 0
      || ::connect(dialer, where, size) != 0)
    throw std::runtime_error("no connection on loopback");
  const int accepted = ::accept(listener, nullptr, nullptr);
  ::close(listener);
  return {dialer, accepted};
}

/// One of the two processes. They differ only in which sends first.
class side {
public:
  side(const settings& s, net::channel x, bool begins)
    : settings_{s}, channel_{std::move(x)}, begins_{begins} {}

  /// @returns the mean round-trip time of each round, in microseconds.
  std::vector<double> ping(std::size_t bytes) {
    std::vector<double> us;
    source_.resize(bytes);
    for (int round = 0; round < settings_.rounds; ++round) {
      const auto start = troupe::benchmarks::clock::now();
      for (std::size_t i = 0; i < settings_.pings; ++i) {
        if (begins_)
          post();
        take(source_);
        if (!begins_)
          post();
      }
      us.push_back(seconds_since(start) * 1e6
                   / static_cast<double>(settings_.pings));
    }
    return us;
  }

  /// @returns the milliseconds of each round until everything is sent and
  ///          received.
  std::vector<double> exchange(std::size_t bytes, bool sends, bool takes) {
    std::vector<double> ms;
    std::vector<std::byte> from(bytes, std::byte{1}), to(bytes, std::byte{2});
    for (int round = 0; round < settings_.rounds + 2; ++round) {
      meet();
      const auto start = troupe::benchmarks::clock::now();
      move(from, to, sends ? 0 : bytes, takes ? 0 : bytes);
      meet();
      if (round >= 2) // the first rounds touch memory for the first time
        ms.push_back(seconds_since(start) * 1e3);
    }
    return ms;
  }

private:
  net::lane& lane() { return *channel_.parts; }

  void meet() {
    source_.resize(1);
    if (begins_)
      post();
    take(source_);
    if (!begins_)
      post();
  }

  void post() {
    while (!lane().post(head_, source_))
      wait();
    while (!lane().flush())
      wait();
  }

  void take(std::span<std::byte> into) {
    while (lane().front() == nullptr)
      wait();
    while (!lane().fetch(into))
      wait();
    lane().pop();
  }

  void move(std::span<const std::byte> from, std::span<std::byte> to,
            std::size_t sent, std::size_t taken) {
    while (sent < from.size() || taken < to.size() || !lane().flush()) {
      const auto out = from.subspan(
        sent, std::min(net::most_parcel_bytes, from.size() - sent));
      bool moved = !out.empty() && lane().post(head_, out);
      sent += moved ? out.size() : 0;
      if (taken < to.size() && lane().front() != nullptr
          && lane().fetch(to.subspan(taken))) {
        taken += lane().front_bytes();
        lane().pop();
        moved = true;
      }
      if (!moved)
        wait();
    }
  }

  void wait() {
    if (lane().ended() && lane().front() == nullptr)
      throw std::runtime_error(lane().ended()->why);
    if (!settings_.sleeps)
      return __builtin_ia32_pause();
    net::lane* const all[]{&lane()};
    net::sleep_on(all, std::chrono::milliseconds{100}, watched_);
  }

  const settings& settings_;
  net::channel channel_;
  bool begins_;
  net::parcel_head head_{};
  std::vector<std::byte> source_;
  std::vector<pollfd> watched_;
};

void print(const char* what, const char* unit, const std::vector<double>& xs) {
  const auto s = troupe::benchmarks::summarize(xs);
  std::printf("  %-22s %9.2f %s  (%.2f to %.2f)\n", what, s.median, unit, s.min,
              s.max);
}

void measure(side& x, const settings& s, bool prints) {
  const auto show = [&](const char* what, const char* unit,
                        const std::vector<double>& xs) {
    if (prints)
      print(what, unit, xs);
  };
  const auto bytes = s.mib << 20;
  show("64 B round trip", "us", x.ping(64));
  show("4 KiB round trip", "us", x.ping(4096));
  show("buffers, one way", "ms", x.exchange(bytes, prints, !prints));
  show("buffers, both ways", "ms", x.exchange(bytes, true, true));
}

void run(const settings& s) {
  const auto parts = tcp_pair(), sums = tcp_pair();
  const auto child = ::fork();
  const std::size_t me = child == 0 ? 1 : 0;
  ::close(parts[1 - me]);
  ::close(sums[1 - me]);
  const net::channel_options options{.policy = s.transport == "shm"
                                                 ? net::lane_policy::shm
                                                 : net::lane_policy::stream,
                                     .dialed = me == 0,
                                     .slots = s.slots};
  side x{s,
         net::open_channel(net::wrap_socket(parts[me]),
                           net::wrap_socket(sums[me]), options),
         me == 0};
  if (me == 0)
    std::printf("%s, %s, %u slots, %zu MiB\n", s.transport.c_str(),
                s.sleeps ? "sleeping" : "polling", s.slots, s.mib);
  measure(x, s, me == 0);
  if (me == 1)
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
