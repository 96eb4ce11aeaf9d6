// net/lanes: messages and descriptors of a peer while two processes agree on
// shared memory.
#include "troupe/tests/fuzz/lane_pair_peer.hpp"

#include <memory>
#include <stdexcept>

using namespace troupe::net;

namespace troupe::fuzz {

namespace {

/// The other stream: no data arrives.
class silent final : public stream {
public:
  moved read_some(std::span<std::byte>) override {
    return {0, status::wants_read};
  }
  moved write_some(view, view) override { return {0, status::wants_write}; }
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

/// Resources of a process before it has a peer.
struct process {
  std::shared_ptr<bell> chime = std::make_shared<bell>();
  std::shared_ptr<net::shm_arena> arena =
    std::make_shared<net::shm_arena>(65536);
};

const process& victim() {
  static const process it;
  return it;
}

void check(const channel& x, const deeds& did, bool insists) {
  const bool shares = x.transport == "shm";
  require(shares || x.transport == "tcp", "lanes are of something");
  require(shares || !insists, "required shared memory is used");
  require(!shares || did.proved, "memory is shared only after a proof");
  require(did.meddled || shares, "two that keep the rules share memory");
  if (!x.why_no_shm.empty())
    check_text(x.why_no_shm);
  if (!shares)
    return;
  require(x.parts->post(parcel_head{}, bytes(3)), "there is room");
  const view some = victim().arena->pages().subspan(64, 20'000);
  require(x.sums->lend(parcel_head{}, some),
          "a packet can be posted with or without zero-copy");
  require(!x.sums->front() && !x.parts->front(), "nothing came yet");
  require(!x.sums->ended(), "it has not ended");
}

void try_channel(choices& from) {
  const bool hosts = from.flip(), insists = from.flip();
  channel_options options{.policy =
                            insists ? lane_policy::shm : lane_policy::automatic,
                          .dialed = hosts,
                          .slots = slots,
                          .host = "here"};
  if (from.flip())
    options.my_bell = victim().chime;
  if (from.flip())
    options.my_arena = victim().arena;
  deeds did;
  try {
    const auto x = open_channel(std::make_unique<peer>(from, hosts, did),
                                std::make_unique<silent>(), options);
    check(x, did, insists);
  } catch (const std::runtime_error& e) {
    require(did.meddled, "two that keep the rules agree");
    check_text(e.what());
  }
}

} // namespace

void try_one(view input) {
  auto& memory = mine().memory.header();
  memory.queues[0].posted = memory.queues[0].popped = 0;
  victim();
  const auto before = open_descriptors();
  choices from{input};
  const auto most = memory_of([&] { try_channel(from); });
  require(most <= 1 << 20, "memory is bounded");
  require(open_descriptors() == before, "no descriptor is left open");
}

std::vector<bytes> seeds() {
  const bytes none(120);
  std::vector<bytes> all;
  for (const int hosts : {0, 1}) {
    all.push_back(joined({hosts}, none));
    all.push_back(joined({hosts, 1, 1}, none));
    for (const int what : {9, 10, 11, 12, 13, 14, 15})
      for (const std::size_t after : {8, 22, 36, 50})
        all.push_back(joined({hosts, 0, 0}, view{none}.first(after),
                             joined({what, 3, 3, 3, 3}), none));
  }
  return all;
}

} // namespace troupe::fuzz
