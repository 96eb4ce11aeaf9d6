#include "troupe/actors/protocol/type_ids.hpp"
#include "troupe/actors/remoting/channel_mailbox.hpp"
#include "troupe/actors/remoting/message_codec.hpp"

#include <caf/actor_system_config.hpp>
#include <caf/sec.hpp>
#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <random>
#include <set>

using namespace troupe;

namespace {

std::mt19937_64 rng;

template <class T>
void fill(T& x) {
  if constexpr (std::is_same_v<T, std::string>) {
    x.resize(rng() % 20);
    for (auto& c : x)
      c = char(rng());
  } else if constexpr (requires { typename wire::element_of<T>::type; }) {
    x.resize(rng() % 5);
    for (auto& each : x)
      fill(each);
  } else if constexpr (std::is_same_v<T, bool>) {
    x = rng() % 2;
  } else if constexpr (std::is_enum_v<T>) {
    using number = std::underlying_type_t<T>;
    for (auto n = number(rng() % 256);; n = number(rng() % 256))
      if (net::is_enumerator<T>(n))
        return void(x = T(n));
  } else if constexpr (std::is_same_v<T, double>) {
    x = std::bit_cast<double>(rng()); // NaN too
  } else if constexpr (std::is_integral_v<T>) {
    x = T(rng());
  } else {
    std::apply([](auto&... xs) { (fill(xs), ...); }, x.fields());
  }
}

template <class T>
void keeps_its_bytes(std::uint64_t seed) {
  SCOPED_TRACE(std::string{net::type_name<T>()} + ", seed "
               + std::to_string(seed));
  rng.seed(seed);
  T x, y;
  fill(x);
  const auto bytes = net::encode(x);
  ASSERT_FALSE(net::decode(bytes, y));
  EXPECT_EQ(net::encode(y), bytes);
  for (std::size_t cut = 0; cut < bytes.size(); ++cut)
    EXPECT_TRUE(net::decode(std::span{bytes}.first(cut), y));
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    auto bad = bytes;
    bad[at] ^= std::byte(1 + rng() % 255);
    if (T z; !net::decode(bad, z)) { // then it is another complete value
      EXPECT_EQ(net::encode(z), bad);
    }
  }
}

template <class... Ts>
void each_keeps_its_bytes() {
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    (keeps_its_bytes<Ts>(seed), ...);
}

std::vector<std::byte> bytes_of(const tensor& x) {
  net::writer to;
  wire::put(to, x);
  return std::move(to).bytes();
}

std::string fault_of(const std::vector<std::byte>& bytes) {
  net::reader from{bytes};
  tensor x;
  wire::get(from, x);
  const auto fault = from.finish();
  return fault ? to_string(*fault) : "none";
}

/// The error of a tensor with these extents that has a head and no elements.
std::string fault_of_head(int type, std::vector<std::int64_t> extents) {
  net::writer to;
  to(true, std::uint8_t(type), std::uint8_t(extents.size()));
  for (const auto x : extents)
    to(x);
  return fault_of(std::move(to).bytes());
}

template <class... Is>
using fact = caf::reacts_to<Is...>;

} // namespace

static_assert(wire::crosses<tree::part> && wire::crosses<tensor>);
static_assert(wire::crosses<tensors>);
static_assert(wire::priority_of<bool, tensors> == net::priority::bulk);
static_assert(wire::crosses<atom::run> && wire::crosses<commit_record>);
static_assert(wire::crosses<step_ref> && !wire::crosses<visit_ref>);
static_assert(!wire::crosses<household_ref> && !wire::crosses<cast_ref>);
static_assert(!wire::crosses<replica_actor> && !wire::crosses<caf::actor>);
static_assert(!wire::crosses<std::vector<replica_actor>>);

TEST(MessageCodec, RoundTripsEveryPlainMessage) {
  each_keeps_its_bytes<step_report, commit_record, tree::stamp, tree::part,
                       tree::sum, tree::share, commit::seat, commit::order,
                       commit::grant, commit::probe, commit::seated,
                       commit::report, commit::failed, commit::blame,
                       link_ended, wire::message_head, wire::failure_note>();
}

TEST(MessageCodec, RejectsAnUnknownAbortCause) {
  commit::failed x;
  x.code = commit::cause::unreachable;
  auto bytes = net::encode(x);
  const std::size_t at = 1 + 8 + 8 + 4 + 4;
  ASSERT_EQ(bytes[at], std::byte{4});
  bytes[at] = std::byte{5};
  const auto fault = net::decode(bytes, x);
  ASSERT_TRUE(fault);
  EXPECT_EQ(to_string(*fault),
            "byte 25: 5 is not a value of troupe::commit::cause");
}

TEST(MessageCodec, KeepsEveryBitOfTensorsOfAnyTypeAndShape) {
  rng.seed(5);
  for (const auto& dims : {shape{}, shape{0}, shape{1}, shape{3, 0, 2},
                           shape{5, 7}, shape{1, 2, 1, 2, 1, 2, 1, 2}})
    for (std::size_t type = 0; type < dtype_count; ++type) {
      tensor x{dims, dtype(type)}, y;
      for (auto& b : std::span{x.raw(), x.bytes()})
        b = std::byte(dtype(type) == dtype::boolean ? rng() % 2 : rng());
      const auto bytes = bytes_of(x);
      net::reader from{bytes};
      wire::get(from, y);
      EXPECT_FALSE(from.finish());
      EXPECT_TRUE(same_bits(x, y)) << to_string(x.spec());
      EXPECT_FALSE(y.shares_storage_with(x));
      for (std::size_t cut = 0; cut < bytes.size(); ++cut)
        EXPECT_NE(fault_of({bytes.begin(), bytes.begin() + cut}), "none");
    }
  EXPECT_EQ(fault_of(bytes_of(tensor{})), "none");
}

TEST(MessageCodec, EncodesOnlyTheElementsOfASlice) {
  const auto all = tensor::of<float>(shape{4}, {1, 2, 3, 4});
  const auto bytes = bytes_of(all.range(1, 3));
  net::reader from{bytes};
  tensor x;
  wire::get(from, x);
  EXPECT_TRUE(same_bits(x, tensor::of<float>(shape{2}, {2, 3})));
}

TEST(MessageCodec, AllocatesNothingForATensorWithoutElements) {
  const auto before = memory::used().live;
  EXPECT_EQ(fault_of_head(6, {}), "byte 3: a tensor of dtype 6");
  EXPECT_EQ(fault_of_head(0, {1, 1, 1, 1, 1, 1, 1, 1, 1}),
            "byte 4: a tensor of 9 axes");
  EXPECT_NE(fault_of_head(0, {-1}), "none");
  const auto most = std::numeric_limits<std::int64_t>::max();
  EXPECT_NE(fault_of_head(0, {most, most}), "none");
  EXPECT_NE(fault_of_head(1, {std::int64_t{1} << 61}), "none");
  EXPECT_NE(fault_of_head(1, {std::int64_t{1} << 40, std::int64_t{1} << 21}),
            "none");
  EXPECT_EQ(fault_of_head(0, {1 << 30}),
            "byte 12: float32[1073741824], but 0 bytes are left");
  EXPECT_EQ(memory::used().live, before);
}

TEST(MessageCodec, RoundTripsAListOfTensors) {
  const tensors all{tensor::of<float>({2}, {1, 2}), {}, tensor::full({}, 3)};
  net::writer to;
  wire::put(to, all);
  const auto bytes = std::move(to).bytes();
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    net::reader from{std::span{bytes}.first(cut)};
    tensors x;
    wire::get(from, x);
    if (cut < bytes.size()) {
      EXPECT_TRUE(from.finish());
      continue;
    }
    EXPECT_FALSE(from.finish());
    ASSERT_EQ(x.size(), 3u);
    EXPECT_TRUE(same_bits(x[0], all[0]));
    EXPECT_FALSE(x[1]);
    EXPECT_TRUE(same_bits(x[2], all[2]));
  }
}

TEST(MessageCodec, RejectsATensorCountAboveTheNumberOfBytes) {
  for (const std::uint64_t count :
       {std::uint64_t{65'537}, std::uint64_t{9}, ~std::uint64_t{0}}) {
    net::writer to;
    to(count, std::uint64_t{0});
    const auto bytes = std::move(to).bytes();
    net::reader from{bytes};
    tensors x;
    wire::get(from, x);
    EXPECT_EQ(to_string(from.finish().value()),
              "byte 9: a list of " + std::to_string(count) + " tensors");
    EXPECT_TRUE(x.empty());
  }
}

TEST(MessageCodec, RejectsAnElementThatIsNeitherTrueNorFalse) {
  auto bytes = bytes_of(tensor::zeros(shape{3}, dtype::boolean));
  bytes.back() = std::byte{2};
  EXPECT_NE(fault_of(bytes).find("neither true nor false"), std::string::npos);
}

TEST(MessageCodec, SignaturesOfDifferentBytesHaveDifferentFingerprints) {
  using a = wire::signature<fact<commit::seat>>;
  using b = wire::signature<fact<commit::order>>;
  using c = wire::signature<fact<tree::part, tensor>>;
  using d = wire::signature<fact<tree::part, tensor, tensor>>;
  using e = wire::signature<caf::replies_to<commit::seat>::with<bool>>;
  using f = wire::signature<fact<atom::run>>;
  using g = wire::signature<fact<atom::stop>>;
  const std::set<std::uint32_t> forms{a::form(), b::form(), c::form(),
                                      d::form(), e::form(), f::form(),
                                      g::form()};
  EXPECT_EQ(forms.size(), 7u);
  std::string text;
  wire::describe<commit::failed>(text);
  EXPECT_EQ(text, "(u8u8u4u4e1s)");
  static_assert(a::is_fact && !e::is_fact && a::local().empty());
  static_assert(wire::signature<fact<visit_ref>>::local()
                == "troupe::visit_ref");
}

TEST(MessageCodec, EncodesAStepFunctionByName) {
  net::writer to;
  wire::put(to, step_ref{std::make_shared<const step_function>(), "run 7"});
  wire::put(to, step_ref{});
  const auto bytes = std::move(to).bytes();
  net::reader from{bytes};
  step_ref x;
  wire::get(from, x);
  EXPECT_FALSE(from.failed());
  EXPECT_EQ(x.it, nullptr);
  EXPECT_EQ(x.name, "run 7");
  wire::get(from, x);
  EXPECT_TRUE(from.failed()) << "one without a name cannot be found";
}

TEST(MessageCodec, KeepsCodeAndTextOfAnError) {
  caf::actor_system_config cfg;
  caf::actor_system sys{cfg};
  const auto there = caf::make_error(ec::superseded, std::string{"view 4"});
  const auto note = wire::note_of(there, sys);
  EXPECT_EQ(note.code, ec::superseded);
  EXPECT_EQ(note.text, "view 4");
  EXPECT_EQ(to_string(wire::error_of(note)), to_string(there));
  EXPECT_EQ(wire::note_of(caf::sec::request_timeout, sys).code, ec::stalled);
  EXPECT_EQ(wire::note_of(caf::sec::request_receiver_down, sys).code,
            ec::peer_lost);
  EXPECT_EQ(wire::note_of(caf::sec::runtime_error, sys).code, ec::invalid);
}
