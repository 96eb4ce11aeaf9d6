// Fuzzes strategies/tensor_transfer: a sender and a receiver whose packets are
// repeated, changed or made up, and the parser of tensor descriptions.
#include "troupe/tests/fuzz/fuzz.hpp"
#include "troupe/tests/strategies/tensor_transfer/transfer_ends.hpp"

using namespace troupe::tensor_transfer;
using namespace troupe::tensor_transfer::testing;

namespace troupe::fuzz {

namespace {

constexpr receiver_limits limits{.window_bytes = 4096,
                                 .max_channel_bytes = 64 * 1024,
                                 .max_bytes = 128 * 1024};
/// Limits of an offer. An offer beyond `max_bytes` is admitted alone.
constexpr std::uint64_t max_offer_bytes = 200 * 1024;
constexpr std::uint32_t max_offer_tensors = 100;

/// Returns the tensors of a message with this number.
tensors tensors_of(std::uint64_t message) {
  tensors out;
  for (std::uint64_t i = 0; i <= message % 3; ++i)
    out.push_back(bytes_tensor(std::int64_t(1 + message * 1000 % 9000), i));
  return out;
}

/// Changes a packet. Returns false if nothing was changed.
bool change(packet& x, choices& source) {
  auto bytes = write(x.header);
  switch (source.below(8)) {
    case 4:
      bytes[source.below(bytes.size())] ^=
        std::byte(source.number<std::uint8_t>());
      break;
    case 5:
      x.payload.resize(source.number<std::uint16_t>());
      break;
    case 6:
      if (!x.payload.empty())
        x.payload[source.below(x.payload.size())] ^= std::byte{1};
      break;
    case 7: {
      const auto made_up = source.take(bytes.size());
      std::copy(made_up.begin(), made_up.end(), bytes.begin());
      break;
    }
    default:
      return false;
  }
  x.header = read(bytes);
  if (x.header.kind == packet_kind::offer) {
    x.header.bytes %= max_offer_bytes;
    x.header.tensors %= max_offer_tensors;
  }
  return true;
}

void check(const transfer_end& x, bool changed) {
  require(x.error.size() < 300, "a violation is a short sentence");
  require(changed || x.error.empty(),
          "packets that were not changed are valid");
  require(x.in.allocated_bytes() <= x.in.reserved_bytes(),
          "memory is reserved before it is allocated");
  require(x.in.reserved_bytes()
            <= max_offer_bytes + 512 * max_offer_tensors + 4096,
          "reserved memory is bounded");
  for (const auto& got : x.received) {
    const auto due = tensors_of(got.message);
    if (changed)
      continue;
    require(got.tensors.size() == due.size(), "no tensor is lost");
    for (std::size_t i = 0; i < due.size(); ++i)
      require(same_bits(got.tensors[i], due[i]), "a tensor has the same bits");
  }
}

void try_pair(choices& source) {
  simulated_pair pair{limits, 1 + source.below(4)};
  bool changed = false;
  std::uint64_t message = 0;
  const auto alter = [&](transfer_end& from) {
    auto& queue = &from == &pair.left ? pair.to_right : pair.to_left;
    pair.send(from);
    if (queue.empty() || source.below(4) < 2)
      return;
    if (source.flip()) {
      queue.push_back(queue.back()); // a repeated packet is no violation
    } else {
      changed |= change(queue.back(), source);
    }
  };
  while (source.any() && pair.left.error.empty() && pair.right.error.empty()) {
    auto& end = source.flip() ? pair.left : pair.right;
    const std::uint32_t channel = std::uint32_t(source.below(3));
    switch (source.below(8)) {
      case 0:
        ++message;
        end.out.send(channel, message, tensors_of(message));
        break;
      case 1:
        end.in.open_channel(channel);
        break;
      case 2:
        if (source.below(8) == 7)
          end.in.close_channel(channel);
        break;
      case 3:
        end.out.cancel(source.below(8));
        break;
      case 4:
        if (!end.received.empty()) {
          end.in.release(end.received.back().transfer);
          end.received.pop_back();
        }
        break;
      default:
        alter(end);
        pair.read(pair.left);
        pair.read(pair.right);
        break;
    }
    check(pair.left, changed);
    check(pair.right, changed);
  }
}

} // namespace

void try_one(view input) {
  choices source{input};
  const auto most = memory_of([&] { try_pair(source); });
  require(most <= (std::size_t{8} << 20), "memory is bounded");
}

std::vector<bytes> seeds() {
  std::vector<bytes> inputs;
  for (const int which : {0, 1}) {
    bytes script = joined({which ^ 1, 0, 1, which, 0, 0});
    for (int i = 0; i < 40; ++i)
      append(script, joined({i % 2, 0, 5, 0}));
    inputs.push_back(script);
    for (const int kind : {4, 5, 6, 7}) {
      auto changed = script;
      append(changed, joined({which, 0, 5, 3, 0, kind, 9, 1, 5, 5, 5, 5}));
      inputs.push_back(changed);
    }
  }
  return inputs;
}

} // namespace troupe::fuzz
