#pragma once

#include "troupe/net/codec/codec.hpp"
#include "troupe/net/transport/lane_pair.hpp"
#include "troupe/tests/fuzz/descriptor_passing.hpp"

#include <string>

// A hand-written peer of net/lanes.

namespace troupe::fuzz {

inline constexpr std::size_t longest_message = 4096;

/// Actions of a peer, for checks after its end.
struct deeds {
  bool meddled = false; ///< It deviated from the protocol.
  bool proved = false;  ///< It sent the nonce of the victim's memory.
};

/// Plays the peer: it answers when the victim reads, mostly according to the
/// protocol.
class peer final : public net::stream {
public:
  peer(choices& from, bool hosts, deeds& did)
    : from_{from}, hosts_{hosts}, did_{did} {}

  moved read_some(std::span<std::byte> to) override {
    if (out_.empty() && !over_)
      speak();
    if (out_.empty())
      return {0, status::closed};
    if (odd() && ++idle_ < 4)
      return {0, status::wants_read};
    const auto n = std::min({to.size(), out_.size(), piece()});
    std::copy_n(out_.begin(), n, to.begin());
    out_.erase(out_.begin(), out_.begin() + std::ptrdiff_t(n));
    return {n, status::ok};
  }

  moved write_some(view first, view second) override {
    require(second.empty(), "one message at a time");
    if (odd() && ++idle_ < 4)
      return {0, status::wants_write};
    const auto n = std::min(first.size(), piece());
    append(in_, first.first(n));
    std::uint32_t size = 0;
    while (in_.size() >= sizeof size) {
      std::memcpy(&size, in_.data(), sizeof size);
      require(size > 0 && size <= longest_message,
              "messages are within the limits");
      if (in_.size() < sizeof size + size)
        break;
      const auto end = in_.begin() + std::ptrdiff_t(sizeof size + size);
      heard_.emplace_back(in_.begin() + sizeof size, end);
      in_.erase(in_.begin(), end);
    }
    return {n, status::ok};
  }

  bool has_buffered() const override { return !out_.empty(); }
  /// A descriptor that `poll` always reports as ready.
  int descriptor() const override { return mine().zeros.get(); }
  std::string problem() const override { return "problem"; }
  void close() override {}

private:
  bool odd() { return from_.below(16) == 15; }
  std::size_t piece() {
    const auto n = from_.number<std::uint8_t>();
    return n == 0 ? longest_message : n;
  }

  void speak() {
    const bool has_proved = did_.proved;
    auto words = due();
    bool lies = false;
    std::uint32_t length = 0;
    switch (from_.below(16)) {
      case 9:
        if (!words.empty())
          words[from_.below(words.size())] ^=
            std::byte(from_.number<std::uint8_t>());
        break;
      case 10:
        words.resize(from_.below(words.size() + 1));
        break;
      case 11:
        append(words, from_.take(1 + from_.below(32)));
        break;
      case 12: {
        const auto some = from_.take(from_.below(64));
        words = {some.begin(), some.end()};
        break;
      }
      case 13: // A reason.
        words = net::encode(
          std::string(from_.number<std::uint16_t>() % longest_message,
                      char(from_.number<std::uint8_t>())));
        break;
      case 14:
        length = from_.number<std::uint32_t>();
        lies = length != words.size();
        break;
      case 15:
        did_.meddled = over_ = true;
        return;
      default:
        break;
    }
    if (!lies)
      length = std::uint32_t(words.size());
    if (lies || words != due_) {
      did_.meddled = true;
      did_.proved =
        has_proved || (did_.proved && !lies && differs_in_sight(words));
    }
    const auto* size = reinterpret_cast<const std::byte*>(&length);
    append(out_, view{size, sizeof length});
    append(out_, words);
  }

  /// Message that the protocol requires now; empty if the peer is out of step.
  bytes due() {
    const auto stage = stage_++;
    const std::size_t answers = stage < 2 ? 0
                                : hosts_  ? stage - 1
                                          : stage + (stage > 2);
    if (heard_.size() <= answers) {
      require(did_.meddled, "messages alternate");
      over_ = true;
      return {};
    }
    due_ = stage == 0   ? heard_[0] // The victim's version.
           : stage == 1 ? terms()
           : hosts_     ? host(stage)
                        : visitor(stage);
    return due_;
  }

  /// True if the message differs only in whether the peer maps the victim's
  /// arena. That flag follows the nonce, which is still correct.
  bool differs_in_sight(bytes words) const {
    constexpr std::size_t sight = 1 + 8 + sizeof(net::shm_nonce);
    if (words.size() != due_.size() || words.size() <= sight + 1)
      return false;
    words[sight] = due_[sight];
    return words == due_;
  }

  bytes terms() {
    constexpr std::array hosts{"here", "here", "here", "there"};
    const auto policy = net::lane_policy(from_.below(3));
    const std::string host = hosts[from_.below(4)];
    did_.meddled |= policy == net::lane_policy::stream || host != hosts[0];
    return net::encode(policy, slots, host);
  }

  bytes visitor(std::size_t stage) {
    const std::string nothing;
    if (stage == 2) {
      visit();
      return net::encode(nothing);
    }
    if (stage == 3)
      return proof(passed_to(socket_.get()), heard_.at(4));
    over_ = true;
    return net::encode(nothing);
  }

  bytes host(std::size_t stage) {
    const std::string nothing;
    if (stage == 2) {
      static std::uint64_t number = 0;
      const auto name =
        "fuzz-" + std::to_string(::getpid()) + "-" + std::to_string(++number);
      const place_named where{name};
      socket_ = new_socket();
      ::bind(socket_.get(), where.get(), where.size);
      ::listen(socket_.get(), 1);
      return net::encode(name, std::vector<std::uint8_t>(token{}.size(), 7),
                         nothing);
    }
    if (stage == 3) {
      net::descriptor visitor{
        ::accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK)};
      if (visitor) {
        came_ = passed_to(visitor.get());
        token known{};
        known.fill(std::byte{7});
        give(visitor.get(), known);
      }
      return net::encode(nothing);
    }
    if (stage == 4)
      return proof(std::move(came_), heard_.at(3));
    over_ = true;
    return net::encode(nothing);
  }

  void visit() {
    std::string name, why;
    std::vector<std::uint8_t> numbers;
    require(!net::decode(heard_.at(2), name, numbers, why),
            "the message can be decoded");
    token known{};
    require(why.empty() && numbers.size() == known.size(),
            "the message names a socket");
    std::memcpy(known.data(), numbers.data(), known.size());
    const place_named where{name};
    for (auto n = from_.below(24); n >= 21;
         --n) { // Unrelated clients connect first.
      auto stranger = new_socket();
      ::connect(stranger.get(), where.get(), where.size);
      token wrong{};
      pass(stranger.get(), wrong, std::array{mine().at(0), mine().at(1)});
      strangers_.push_back(std::move(stranger));
    }
    socket_ = new_socket();
    ::connect(socket_.get(), where.get(), where.size);
    give(socket_.get(), known);
  }

  /// Passes mostly one memory file, one notifier, and optionally an arena.
  void give(int to, token text) {
    std::vector<int> fds{mine().at(0), mine().at(1)};
    if (from_.flip())
      fds.push_back(mine().arena.descriptor());
    std::size_t size = text.size();
    switch (from_.below(8)) {
      case 4:
        did_.meddled = true;
        fds.clear();
        for (auto n = from_.below(most_fds + 1); n > 0; --n)
          fds.push_back(mine().at(from_.below(belongings::count)));
        break;
      case 5:
        did_.meddled = true;
        fds[from_.below(fds.size())] =
          mine().at(from_.below(belongings::count));
        break;
      case 6:
        did_.meddled = true;
        text[from_.below(text.size())] ^= std::byte{1};
        break;
      case 7:
        did_.meddled = true;
        size = from_.below(text.size());
        break;
      default:
        break;
    }
    pass(to, std::span{text}.first(size), fds);
  }

  /// The victim's own message with the nonce of its memory.
  bytes proof(std::vector<net::descriptor> came, bytes his) {
    const auto& known = mine().memory.header().nonce;
    const auto at =
      std::search(his.begin(), his.end(), known.begin(), known.end());
    if (came.empty() || at == his.end())
      return his;
    require(::fcntl(came[0].get(), F_GETFL) >= 0,
            "a passed descriptor is open");
    const net::shm_view theirs{came[0].get(), slots};
    std::ranges::copy(theirs.header().nonce, at);
    did_.proved = true;
    return his;
  }

  choices& from_;
  bool hosts_;
  deeds& did_;
  bool over_ = false;
  int idle_ = 0;
  std::size_t stage_ = 0;
  bytes in_, out_, due_;
  std::vector<bytes> heard_;
  net::descriptor socket_;
  std::vector<net::descriptor> came_, strangers_;
};

} // namespace troupe::fuzz
