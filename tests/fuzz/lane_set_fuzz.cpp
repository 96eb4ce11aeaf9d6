// Fuzzes net/transport/lane_set: a simulated peer sends messages and
// descriptors while it negotiates shared memory.
#include "troupe/tests/fuzz/lane_set_peer.hpp"

#include <memory>
#include <stdexcept>

using namespace troupe::net;

namespace troupe::fuzz {

namespace {

/// The stream of the second lane. No data arrives on it.
class silent final : public stream {
public:
  io_result read_some(std::span<std::byte>) override {
    return {0, status::wants_read};
  }
  io_result write_some(view, view) override { return {0, status::wants_write}; }
  bool has_buffered() const override { return false; }
  int descriptor() const override { return -1; }
  std::string problem() const override { return ""; }
  void close() override {}
};

// -- properties --------------------------------------------------------------

std::size_t open_descriptors() {
  std::size_t count = 0;
  for (int fd = 0; fd < 96; ++fd)
    count += ::fcntl(fd, F_GETFD) >= 0;
  return count;
}

void check_text(const std::string& why) {
  require(!why.empty() && why.size() < 600, "a refusal is a short sentence");
  for (const unsigned char c : why)
    require(c >= ' ' && c != 127, "a refusal is one line of text");
}

/// Resources of the process under test that exist before the negotiation.
struct process {
  std::shared_ptr<event_notifier> notifier = std::make_shared<event_notifier>();
  std::shared_ptr<net::shm_arena> arena =
    std::make_shared<net::shm_arena>(65536);
};

const process& victim() {
  static const process it;
  return it;
}

void check(const lane_set& x, const peer_record& did, bool insists) {
  const bool shares = x.transport == "shm";
  require(shares || x.transport == "tcp", "lanes are of something");
  require(shares || !insists, "required shared memory is used");
  require(!shares || did.sent_nonce, "memory is shared only after a proof");
  require(did.deviated || shares, "two that keep the rules share memory");
  if (!x.shm_unavailable_reason.empty())
    check_text(x.shm_unavailable_reason);
  if (!shares)
    return;
  require(x.lanes[0]->post(packet_header{}, bytes(3)), "there is room");
  const view some = victim().arena->pages().subspan(64, 20'000);
  require(x.lanes[1]->post_zero_copy(packet_header{}, some),
          "a packet can be posted with or without zero-copy");
  require(!x.lanes[1]->front() && !x.lanes[0]->front(), "nothing came yet");
  require(!x.lanes[1]->closed(), "it has not ended");
}

void try_channel(choices& source) {
  const bool hosts = source.flip(), insists = source.flip();
  lane_options options{.policy =
                         insists ? lane_policy::shm : lane_policy::automatic,
                       .is_dialer = hosts,
                       .slots = slots,
                       .host = "here"};
  if (source.flip())
    options.notifier = victim().notifier;
  if (source.flip())
    options.arena = victim().arena;
  peer_record did;
  try {
    std::vector<std::unique_ptr<stream>> streams;
    streams.push_back(std::make_unique<peer>(source, hosts, did));
    streams.push_back(std::make_unique<silent>());
    const auto x = open_lanes(std::move(streams), options);
    check(x, did, insists);
  } catch (const std::runtime_error& e) {
    require(did.deviated, "two that keep the rules agree");
    check_text(e.what());
  }
}

} // namespace

void try_one(view input) {
  auto& memory = shared_descriptors().memory.header();
  memory.queues[0].posted = memory.queues[0].popped = 0;
  victim();
  const auto before = open_descriptors();
  choices source{input};
  const auto most = memory_of([&] { try_channel(source); });
  require(most <= 1 << 20, "memory is bounded");
  require(open_descriptors() == before, "no descriptor is left open");
}

std::vector<bytes> seeds() {
  const bytes none(120);
  std::vector<bytes> inputs;
  for (const int hosts : {0, 1}) {
    inputs.push_back(joined({hosts}, none));
    inputs.push_back(joined({hosts, 1, 1}, none));
    for (const int what : {9, 10, 11, 12, 13, 14, 15})
      for (const std::size_t after : {8, 22, 36, 50})
        inputs.push_back(joined({hosts, 0, 0}, view{none}.first(after),
                                joined({what, 3, 3, 3, 3}), none));
  }
  return inputs;
}

} // namespace troupe::fuzz
