#pragma once

#include "troupe/net/codec/codec.hpp"
#include "troupe/net/transport/lane_set.hpp"
#include "troupe/tests/fuzz/descriptor_passing.hpp"

#include <string>

// A simulated peer of net/transport/lane_set. The victim is the process under
// test, which calls `open_lanes`.

namespace troupe::fuzz {

inline constexpr std::size_t max_message_bytes = 4096;

/// What the simulated peer has done; the target checks the results of the
/// victim against it.
struct peer_record {
  bool deviated = false; ///< True if the peer has deviated from the protocol.
  /// True if the peer has sent back the nonce that it read in the victim's
  /// segment.
  bool sent_nonce = false;
};

/// The victim's end of a stream to the simulated peer. When the victim reads,
/// the peer sends its next message, which mostly follows the protocol.
class peer final : public net::stream {
public:
  /// @param hosts true if the peer listens on the Unix socket and the victim
  ///              connects to it; false if the victim listens.
  peer(choices& source, bool hosts, peer_record& record)
    : source_{source}, hosts_{hosts}, record_{record} {}

  io_result read_some(std::span<std::byte> to) override {
    if (output_.empty() && !over_)
      send_next();
    if (output_.empty())
      return {0, status::closed};
    if (odd() && ++idle_ < 4)
      return {0, status::wants_read};
    const auto n = std::min({to.size(), output_.size(), piece()});
    std::copy_n(output_.begin(), n, to.begin());
    output_.erase(output_.begin(), output_.begin() + std::ptrdiff_t(n));
    return {n, status::ok};
  }

  io_result write_some(view first, view second) override {
    require(second.empty(), "one message at a time");
    if (odd() && ++idle_ < 4)
      return {0, status::wants_write};
    const auto n = std::min(first.size(), piece());
    append(input_, first.first(n));
    std::uint32_t size = 0;
    while (input_.size() >= sizeof size) {
      std::memcpy(&size, input_.data(), sizeof size);
      require(size > 0 && size <= max_message_bytes,
              "messages are within the limits");
      if (input_.size() < sizeof size + size)
        break;
      const auto end = input_.begin() + std::ptrdiff_t(sizeof size + size);
      received_.emplace_back(input_.begin() + sizeof size, end);
      input_.erase(input_.begin(), end);
    }
    return {n, status::ok};
  }

  bool has_buffered() const override { return !output_.empty(); }
  /// Returns a descriptor that `poll` always reports as ready.
  int descriptor() const override { return shared_descriptors().zeros.get(); }
  std::string problem() const override { return "problem"; }
  void close() override {}

private:
  bool odd() { return source_.below(16) == 15; }
  std::size_t piece() {
    const auto n = source_.number<std::uint8_t>();
    return n == 0 ? max_message_bytes : n;
  }

  void send_next() {
    const bool has_proved = record_.sent_nonce;
    auto words = next_expected();
    bool lies = false;
    std::uint32_t length = 0;
    switch (source_.below(16)) {
      case 9:
        if (!words.empty())
          words[source_.below(words.size())] ^=
            std::byte(source_.number<std::uint8_t>());
        break;
      case 10:
        words.resize(source_.below(words.size() + 1));
        break;
      case 11:
        append(words, source_.take(1 + source_.below(32)));
        break;
      case 12: {
        const auto some = source_.take(source_.below(64));
        words = {some.begin(), some.end()};
        break;
      }
      case 13: // reports the reason of a failure
        words = net::encode(
          std::string(source_.number<std::uint16_t>() % max_message_bytes,
                      char(source_.number<std::uint8_t>())));
        break;
      case 14:
        length = source_.number<std::uint32_t>();
        lies = length != words.size();
        break;
      case 15:
        record_.deviated = over_ = true;
        return;
      default:
        break;
    }
    if (!lies)
      length = std::uint32_t(words.size());
    if (lies || words != expected_) {
      record_.deviated = true;
      record_.sent_nonce =
        has_proved || (record_.sent_nonce && !lies && differs_in_sight(words));
    }
    const auto* size = reinterpret_cast<const std::byte*>(&length);
    append(output_, view{size, sizeof length});
    append(output_, words);
  }

  /// Returns the message that the protocol requires now. Empty: the victim does
  /// not wait for a message.
  bytes next_expected() {
    const auto stage = stage_++;
    const std::size_t answers = stage < 2 ? 0
                                : hosts_  ? stage - 1
                                          : stage + (stage > 2);
    if (received_.size() <= answers) {
      require(record_.deviated, "messages alternate");
      over_ = true;
      return {};
    }
    // At stage 0, the peer has to send the version that the victim has sent.
    expected_ = stage == 0   ? received_[0]
                : stage == 1 ? terms()
                : hosts_     ? host(stage)
                             : visitor(stage);
    return expected_;
  }

  /// Returns true if `words` equals `expected_`, or differs only in the flag
  /// after the nonce. In both cases the nonce in `words` is correct. The flag
  /// says whether the peer has mapped the victim's arena.
  bool differs_in_sight(bytes words) const {
    constexpr std::size_t sight = 1 + 8 + sizeof(net::shm_nonce);
    if (words.size() != expected_.size() || words.size() <= sight + 1)
      return false;
    words[sight] = expected_[sight];
    return words == expected_;
  }

  bytes terms() {
    constexpr std::array hosts{"here", "here", "here", "there"};
    const auto policy = net::lane_policy(source_.below(3));
    const std::string host = hosts[source_.below(4)];
    record_.deviated |= policy == net::lane_policy::stream || host != hosts[0];
    return net::encode(policy, lanes, slots, host);
  }

  bytes visitor(std::size_t stage) {
    const std::string nothing;
    if (stage == 2) {
      connect_to_host();
      return net::encode(nothing);
    }
    if (stage == 3)
      return proof(receive_descriptors(socket_.get()), received_.at(4));
    over_ = true;
    return net::encode(nothing);
  }

  bytes host(std::size_t stage) {
    const std::string nothing;
    if (stage == 2) {
      static std::uint64_t number = 0;
      const auto name =
        "fuzz-" + std::to_string(::getpid()) + "-" + std::to_string(++number);
      const abstract_address where{name};
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
        received_descriptors_ = receive_descriptors(visitor.get());
        token known{};
        known.fill(std::byte{7});
        pass_descriptors(visitor.get(), known);
      }
      return net::encode(nothing);
    }
    if (stage == 4)
      return proof(std::move(received_descriptors_), received_.at(3));
    over_ = true;
    return net::encode(nothing);
  }

  void connect_to_host() {
    std::string name, reason;
    std::vector<std::uint8_t> numbers;
    require(!net::decode(received_.at(2), name, numbers, reason),
            "the message can be decoded");
    token known{};
    require(reason.empty() && numbers.size() == known.size(),
            "the message names a socket");
    std::memcpy(known.data(), numbers.data(), known.size());
    const abstract_address address{name};
    for (auto n = source_.below(24); n >= 21;
         --n) { // Other clients connect first, with a wrong token.
      auto intruder = new_socket();
      ::connect(intruder.get(), address.get(), address.size);
      token wrong{};
      pass(intruder.get(), wrong,
           std::array{shared_descriptors().descriptor_at(0),
                      shared_descriptors().descriptor_at(1)});
      outsiders_.push_back(std::move(intruder));
    }
    socket_ = new_socket();
    ::connect(socket_.get(), address.get(), address.size);
    pass_descriptors(socket_.get(), known);
  }

  /// Passes a segment, a notifier and optionally an arena. In about half of the
  /// cases the descriptors, the token or its size are wrong.
  void pass_descriptors(int socket, token text) {
    std::vector<int> fds{shared_descriptors().descriptor_at(0),
                         shared_descriptors().descriptor_at(1)};
    if (source_.flip())
      fds.push_back(shared_descriptors().arena.descriptor());
    std::size_t size = text.size();
    switch (source_.below(8)) {
      case 4:
        record_.deviated = true;
        fds.clear();
        for (auto n = source_.below(max_fds + 1); n > 0; --n)
          fds.push_back(shared_descriptors().descriptor_at(
            source_.below(descriptor_set::count)));
        break;
      case 5:
        record_.deviated = true;
        fds[source_.below(fds.size())] = shared_descriptors().descriptor_at(
          source_.below(descriptor_set::count));
        break;
      case 6:
        record_.deviated = true;
        text[source_.below(text.size())] ^= std::byte{1};
        break;
      case 7:
        record_.deviated = true;
        size = source_.below(text.size());
        break;
      default:
        break;
    }
    pass(socket, std::span{text}.first(size), fds);
  }

  /// Returns the message by which the peer proves that it has mapped the
  /// victim's segment. It is `response` with the nonce replaced by the nonce in
  /// that segment.
  /// @param came descriptors from the victim; the first is its segment.
  /// @param response the last message of the victim.
  bytes proof(std::vector<net::descriptor> came, bytes response) {
    const auto& known = shared_descriptors().memory.header().nonce;
    const auto found =
      std::search(response.begin(), response.end(), known.begin(), known.end());
    if (came.empty() || found == response.end())
      return response;
    require(::fcntl(came[0].get(), F_GETFL) >= 0,
            "a passed descriptor is open");
    const net::shm_view theirs{came[0].get(), lanes, slots};
    std::ranges::copy(theirs.header().nonce, found);
    record_.sent_nonce = true;
    return response;
  }

  choices& source_;
  bool hosts_;
  peer_record& record_;
  bool over_ = false;
  int idle_ = 0;
  std::size_t stage_ = 0;
  bytes input_, output_, expected_;
  std::vector<bytes> received_;
  net::descriptor socket_;
  std::vector<net::descriptor> received_descriptors_, outsiders_;
};

} // namespace troupe::fuzz
