#include "troupe/actors/protocol/chief_actor.hpp"
#include "troupe/actors/protocol/closure_actors.hpp"
#include "troupe/actors/protocol/local_agent_actor.hpp"
#include "troupe/actors/protocol/replica_actor.hpp"
#include "troupe/actors/protocol/shard_copy_actor.hpp"
#include "troupe/actors/protocol/shard_messages.hpp"
#include "troupe/actors/remoting/channel_mailbox.hpp"
#include "troupe/actors/remoting/message_codec.hpp"
#include "troupe/strategies/coordinator/records.hpp"

#include <caf/actor_system_config.hpp>
#include <caf/sec.hpp>
#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <random>
#include <set>
#include <variant>

using namespace troupe;

namespace {

std::mt19937_64 rng;

template <class... Ts>
void fill(std::variant<Ts...>& value);

template <class T>
void fill(T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    value.resize(rng() % 20);
    for (auto& c : value)
      c = char(rng());
  } else if constexpr (requires { typename wire::element_of<T>::type; }) {
    value.resize(rng() % 5);
    for (auto& each : value)
      fill(each);
  } else if constexpr (std::is_same_v<T, bool>) {
    value = rng() % 2;
  } else if constexpr (std::is_enum_v<T>) {
    using number = std::underlying_type_t<T>;
    for (auto n = number(rng() % 256);; n = number(rng() % 256))
      if (net::is_enumerator<T>(n))
        return void(value = T(n));
  } else if constexpr (std::is_same_v<T, double>) {
    value = std::bit_cast<double>(rng()); // NaN too
  } else if constexpr (std::is_same_v<T, float>) {
    value = std::bit_cast<float>(std::uint32_t(rng()));
  } else if constexpr (std::is_integral_v<T>) {
    value = T(rng());
  } else {
    std::apply([](auto&... xs) { (fill(xs), ...); }, value.fields());
  }
}

template <class... Ts>
void fill(std::variant<Ts...>& value) {
  const auto chosen = rng() % sizeof...(Ts);
  std::size_t i = 0;
  ((i++ == chosen ? fill(value.template emplace<Ts>()) : void()), ...);
}

template <class T>
void expect_round_trip(std::uint64_t seed) {
  SCOPED_TRACE(std::string{net::type_name<T>()} + ", seed "
               + std::to_string(seed));
  rng.seed(seed);
  T value, decoded;
  fill(value);
  const auto bytes = net::encode(value);
  ASSERT_FALSE(net::decode(bytes, decoded));
  EXPECT_EQ(net::encode(decoded), bytes);
  for (std::size_t cut = 0; cut < bytes.size(); ++cut)
    EXPECT_TRUE(net::decode(std::span{bytes}.first(cut), decoded));
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    auto bad = bytes;
    bad[at] ^= std::byte(1 + rng() % 255);
    if (T z; !net::decode(bad, z)) { // then `bad` encodes another value
      EXPECT_EQ(net::encode(z), bad);
    }
  }
}

template <class... Ts>
void expect_round_trips() {
  for (std::uint64_t seed = 1; seed <= 20; ++seed)
    (expect_round_trip<Ts>(seed), ...);
}

std::vector<std::byte> bytes_of(const tensor& x) {
  net::writer out;
  wire::put(out, x);
  return std::move(out).bytes();
}

std::string decode_error_of(const std::vector<std::byte>& bytes) {
  net::reader in{bytes};
  tensor x;
  wire::get(in, x);
  const auto fault = in.finish();
  return fault ? to_string(*fault) : "none";
}

/// Returns the error of decoding a tensor that has a dtype and these extents
/// but no elements.
std::string decode_error_of_head(int type, std::vector<std::int64_t> extents) {
  net::writer out;
  out(true, std::uint8_t(type), std::uint8_t(extents.size()));
  for (const auto x : extents)
    out(x);
  return decode_error_of(std::move(out).bytes());
}

template <class... Is>
using oneway = caf::reacts_to<Is...>;

} // namespace

static_assert(
  wire::is_serializable<tree::contribution> && wire::is_serializable<tensor>);
static_assert(wire::is_serializable<tensors>);
static_assert(wire::priority_of<bool, tensors> == net::priority::bulk);
static_assert(
  wire::is_serializable<atom::run> && wire::is_serializable<commit_record>);
static_assert(wire::is_serializable<
                step_function_ref> && !wire::is_serializable<replica_task>);
static_assert(
  !wire::is_serializable<local_roles> && !wire::is_serializable<job_roles>);
static_assert(
  !wire::is_serializable<replica_actor> && !wire::is_serializable<caf::actor>);
static_assert(!wire::is_serializable<std::vector<replica_actor>>);

TEST(MessageCodec, RoundTripsEveryPlainMessage) {
  expect_round_trips<
    step_metrics, commit_record, tree::slice_key, tree::contribution,
    tree::reduced_slice, tree::gather_contribution, step_commit::configure,
    step_commit::start_steps, step_commit::grant, step_commit::probe,
    step_commit::configured, step_commit::step_done, step_commit::failed,
    step_commit::wait_report, role_wait, requesting_call, requested_run,
    failure_report, run_barrier::join, run_aborted, channel_closed,
    wire::message_head, wire::wire_error>();
}

TEST(MessageCodec, RoundTripsMessagesAndRecordsOfACoordinator) {
  expect_round_trips<coordinator::run, coordinator::cancel, coordinator::query,
                     coordinator::ended, coordinator::failed,
                     coordinator::stopped, coordinator::unknown,
                     coordinator::decision, coordinator::decided,
                     coordinator::record_end, coordinator::record_error,
                     coordinator::forget_records, remote_work, remote_ends>();
}

TEST(MessageCodec, RoundTripsMessagesOfAShard) {
  expect_round_trips<
    new_part, part_table, new_optimizer, change_list, optimizer_pull,
    shard_status, parameter_server::table_image, shard_answer, removal,
    new_training, parameter_server::update_factors, shard_push, shard_pushed,
    shard_pull, shard_decision, shard_decision_query, shard_accepted,
    copy_record, copy_snapshot>();
}

TEST(MessageCodec, RejectsAnUnknownErrorCode) {
  failure_report failure;
  failure.code = ec::unreachable;
  auto bytes = net::encode(failure);
  const std::size_t at = 1 + 1; // after the byte order and the kind
  ASSERT_EQ(bytes[at], std::byte{5});
  bytes[at] = std::byte{11};
  const auto fault = net::decode(bytes, failure);
  ASSERT_TRUE(fault);
  EXPECT_EQ(to_string(*fault), "byte 2: 11 is not a value of troupe::ec");
}

TEST(MessageCodec, KeepsEveryBitOfTensorsOfAnyTypeAndShape) {
  rng.seed(5);
  for (const auto& dims : {shape{}, shape{0}, shape{1}, shape{3, 0, 2},
                           shape{5, 7}, shape{1, 2, 1, 2, 1, 2, 1, 2}})
    for (std::size_t type = 0; type < dtype_count; ++type) {
      tensor value{dims, dtype(type)}, decoded;
      for (auto& b : std::span{value.raw(), value.bytes()})
        b = std::byte(dtype(type) == dtype::boolean ? rng() % 2 : rng());
      const auto bytes = bytes_of(value);
      net::reader in{bytes};
      wire::get(in, decoded);
      EXPECT_FALSE(in.finish());
      EXPECT_TRUE(same_bits(value, decoded)) << to_string(value.spec());
      EXPECT_FALSE(decoded.shares_storage_with(value));
      for (std::size_t cut = 0; cut < bytes.size(); ++cut)
        EXPECT_NE(decode_error_of({bytes.begin(), bytes.begin() + cut}),
                  "none");
    }
  EXPECT_EQ(decode_error_of(bytes_of(tensor{})), "none");
}

TEST(MessageCodec, EncodesOnlyTheElementsOfASlice) {
  const auto all = tensor::of<float>(shape{4}, {1, 2, 3, 4});
  const auto bytes = bytes_of(all.range(1, 3));
  net::reader in{bytes};
  tensor decoded;
  wire::get(in, decoded);
  EXPECT_TRUE(same_bits(decoded, tensor::of<float>(shape{2}, {2, 3})));
}

TEST(MessageCodec, AllocatesNothingForATensorWithoutElements) {
  const auto before = memory::used().live;
  EXPECT_EQ(decode_error_of_head(int(dtype_count), {}),
            "byte 3: a tensor of dtype " + std::to_string(dtype_count));
  EXPECT_EQ(decode_error_of_head(0, {1, 1, 1, 1, 1, 1, 1, 1, 1}),
            "byte 4: a tensor of 9 axes");
  EXPECT_NE(decode_error_of_head(0, {-1}), "none");
  const auto limit = std::numeric_limits<std::int64_t>::max();
  EXPECT_NE(decode_error_of_head(0, {limit, limit}), "none");
  EXPECT_NE(decode_error_of_head(1, {std::int64_t{1} << 61}), "none");
  EXPECT_NE(
    decode_error_of_head(1, {std::int64_t{1} << 40, std::int64_t{1} << 21}),
    "none");
  EXPECT_EQ(decode_error_of_head(0, {1 << 30}),
            "byte 12: float32[1073741824], but 0 bytes are left");
  EXPECT_EQ(memory::used().live, before);
}

TEST(MessageCodec, RoundTripsAListOfTensors) {
  const tensors values{tensor::of<float>({2}, {1, 2}), {}, tensor::full({}, 3)};
  net::writer out;
  wire::put(out, values);
  const auto bytes = std::move(out).bytes();
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    net::reader in{std::span{bytes}.first(cut)};
    tensors decoded;
    wire::get(in, decoded);
    if (cut < bytes.size()) {
      EXPECT_TRUE(in.finish());
      continue;
    }
    EXPECT_FALSE(in.finish());
    ASSERT_EQ(decoded.size(), 3u);
    EXPECT_TRUE(same_bits(decoded[0], values[0]));
    EXPECT_FALSE(decoded[1]);
    EXPECT_TRUE(same_bits(decoded[2], values[2]));
  }
}

TEST(MessageCodec, RejectsATensorCountAboveTheNumberOfBytes) {
  for (const std::uint64_t count :
       {std::uint64_t{65'537}, std::uint64_t{9}, ~std::uint64_t{0}}) {
    net::writer out;
    out(count, std::uint64_t{0});
    const auto bytes = std::move(out).bytes();
    net::reader in{bytes};
    tensors decoded;
    wire::get(in, decoded);
    EXPECT_EQ(to_string(in.finish().value()),
              "byte 9: a list of " + std::to_string(count) + " tensors");
    EXPECT_TRUE(decoded.empty());
  }
}

TEST(MessageCodec, RejectsAnElementThatIsNeitherTrueNorFalse) {
  auto bytes = bytes_of(tensor::zeros(shape{3}, dtype::boolean));
  bytes.back() = std::byte{2};
  EXPECT_NE(decode_error_of(bytes).find("neither true nor false"),
            std::string::npos);
}

TEST(MessageCodec, SignaturesOfDifferentBytesHaveDifferentFingerprints) {
  using a = wire::signature<oneway<step_commit::configure>>;
  using b = wire::signature<oneway<step_commit::start_steps>>;
  using c = wire::signature<oneway<tree::contribution, tensor>>;
  using d = wire::signature<oneway<tree::contribution, tensor, tensor>>;
  using e =
    wire::signature<caf::replies_to<step_commit::configure>::with<bool>>;
  using f = wire::signature<oneway<atom::run>>;
  using g = wire::signature<oneway<atom::stop>>;
  const std::set<std::uint32_t> fingerprints{
    a::fingerprint(), b::fingerprint(), c::fingerprint(), d::fingerprint(),
    e::fingerprint(), f::fingerprint(), g::fingerprint()};
  EXPECT_EQ(fingerprints.size(), 7u);
  std::string text;
  wire::append_schema<step_commit::failed>(text);
  EXPECT_EQ(text, "(u8u8u4u4(e1e1[u4][u4]u8u8u8u8u8ss[(bu4e1u4[u4])]u4[u4][u4]"
                  "[(u4u8u8u8(su8su8))]s))");
  text.clear();
  wire::append_schema<std::variant<bool, std::vector<std::string>>>(text);
  EXPECT_EQ(text, "{b[s]}");
  static_assert(a::is_oneway && !e::is_oneway
                && a::nonserializable_type().empty());
  static_assert(wire::signature<oneway<replica_task>>::nonserializable_type()
                == "troupe::replica_task");
}

TEST(MessageCodec, EncodesAStepFunctionByName) {
  net::writer out;
  wire::put(
    out, step_function_ref{std::make_shared<const step_function>(), "run 7"});
  wire::put(out, step_function_ref{});
  const auto bytes = std::move(out).bytes();
  net::reader in{bytes};
  step_function_ref decoded;
  wire::get(in, decoded);
  EXPECT_FALSE(in.failed());
  EXPECT_EQ(decoded.function, nullptr);
  EXPECT_EQ(decoded.name, "run 7");
  wire::get(in, decoded);
  EXPECT_TRUE(in.failed()) << "one without a name cannot be found";
}

TEST(MessageCodec, KeepsCodeAndTextOfAnError) {
  caf::actor_system_config cfg;
  caf::actor_system sys{cfg};
  const auto original = caf::make_error(ec::superseded, std::string{"view 4"});
  const auto error = wire::to_wire(original, sys);
  EXPECT_EQ(error.code, ec::superseded);
  EXPECT_EQ(error.text, "view 4");
  EXPECT_EQ(to_string(wire::from_wire(error)), to_string(original));
  EXPECT_EQ(wire::to_wire(caf::sec::request_timeout, sys).code, ec::stalled);
  EXPECT_EQ(wire::to_wire(caf::sec::request_receiver_down, sys).code,
            ec::peer_lost);
  EXPECT_EQ(wire::to_wire(caf::sec::runtime_error, sys).code, ec::invalid);
}
