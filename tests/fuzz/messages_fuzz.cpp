// Fuzzes net/codec and actors/remoting: decodes a payload as a message struct,
// or as the arguments or results of a message of a remote role.
#include "troupe/actors/protocol/chief_actor.hpp"
#include "troupe/actors/protocol/job_status.hpp"
#include "troupe/actors/protocol/node_actor.hpp"
#include "troupe/actors/protocol/replica_actor.hpp"
#include "troupe/actors/protocol/status_actor.hpp"
#include "troupe/actors/protocol/vacancy_actor.hpp"
#include "troupe/actors/remoting/channel_mailbox.hpp"
#include "troupe/actors/remoting/message_codec.hpp"
#include "troupe/net/session/hello.hpp"
#include "troupe/strategies/coordinator/records.hpp"
#include "troupe/strategies/membership/messages.hpp"
#include "troupe/strategies/membership/run_barrier.hpp"
#include "troupe/strategies/membership/view_messages.hpp"
#include "troupe/strategies/parameter_server/messages.hpp"
#include "troupe/tests/fuzz/fuzz.hpp"

#include <array>
#include <optional>
#include <tuple>

namespace troupe::fuzz {

namespace {

template <class... Ts>
struct list {};

using structs =
  list<step_metrics, commit_record, tree::slice_key, tree::contribution,
       tree::reduced_slice, tree::gather_contribution, step_commit::configure,
       step_commit::start_steps, step_commit::grant, step_commit::probe,
       step_commit::configured, step_commit::step_done, step_commit::failed,
       step_commit::wait_report, member_status, job_status, role_fingerprint,
       spawn_request, node_info, role_wait, requested_run, failure_report,
       run_aborted, run_barrier::join, membership::join_request,
       membership::view, membership::call_results, membership::vacancies,
       view_change::message, net::hello, net::hello_response, channel_closed,
       wire::message_head, wire::wire_error>;

using coordinator_structs =
  list<coordinator::run, coordinator::cancel, coordinator::query,
       coordinator::ended, coordinator::failed, coordinator::stopped,
       coordinator::unknown, coordinator::decision, coordinator::decided,
       coordinator::record_end, coordinator::record_error,
       coordinator::forget_records>;

using shard_structs =
  list<parameter_server::push, parameter_server::pull,
       parameter_server::accepted, parameter_server::contributed,
       parameter_server::decision_query, parameter_server::decision,
       parameter_server::pushed, parameter_server::pulled,
       parameter_server::decided, parameter_server::last_decision,
       parameter_server::serving, parameter_server::record,
       parameter_server::stored, parameter_server::inquire,
       parameter_server::in_sync, parameter_server::snapshot>;

using roles = list<replica_owner_actor, replica_actor, chief_actor,
                   status_actor, vacancy_actor, node_actor>;

template <class Sig>
struct sides;
template <class... Is, class... Os>
struct sides<
  caf::typed_mpi<caf::detail::type_list<Is...>, caf::output_tuple<Os...>>> {
  using inputs = std::tuple<Is...>;
  using outputs = std::conditional_t<
    (std::is_void_v<Os> && ...), std::tuple<>,
    std::tuple<std::conditional_t<std::is_void_v<Os>, bool, Os>...>>;
};

/// Checks that a payload either cannot be decoded, or is equal to the encoding
/// of its decoded values.
template <class... Ts>
void check_values(view payload) {
  std::tuple<Ts...> values;
  std::optional<net::decode_error> fault;
  const auto tensors = memory::used().live;
  const auto memory = memory_of([&] {
    net::reader from{payload};
    std::apply([&](auto&... xs) { (wire::get(from, xs), ...); }, values);
    fault = from.finish();
  });
  require(memory <= 32 * payload.size() + 4096,
          "memory follows the bytes that came");
  require(memory::used().live - tensors
            <= 2 * payload.size() + 256 * sizeof...(Ts),
          "so does that of tensors");
  if (fault) {
    require(fault->offset <= payload.size(), "a fault has a place");
    require(fault->reason.size() < 300, "a fault is a short sentence");
    return;
  }
  net::writer to;
  std::apply([&](const auto&... xs) { (wire::put(to, xs), ...); }, values);
  const auto again = std::move(to).bytes();
  require(std::ranges::equal(again, payload),
          "a decoded value has the bytes it was decoded from");
}

template <class Tuple>
struct values_of;
template <class... Ts>
struct values_of<std::tuple<Ts...>> {
  static void check(view payload) {
    if constexpr ((wire::is_serializable<Ts> && ...))
      check_values<Ts...>(payload);
  }
};

using check = void (*)(view);

template <class... Ts>
void add_structs(std::vector<check>& to, list<Ts...>) {
  (to.push_back(check_values<Ts>), ...);
}

template <class... Sigs>
void add_signatures(std::vector<check>& to, caf::detail::type_list<Sigs...>) {
  (to.push_back(values_of<typename sides<Sigs>::inputs>::check), ...);
  (to.push_back(values_of<typename sides<Sigs>::outputs>::check), ...);
}

template <class... Roles>
void add_roles(std::vector<check>& to, list<Roles...>) {
  (add_signatures(to, typename Roles::signatures{}), ...);
}

const std::vector<check>& checks() {
  static const auto inputs = [] {
    std::vector<check> x{check_values<tensor>, check_values<tensor, tensor>};
    add_structs(x, structs{});
    add_roles(x, roles{});
    // Last, so that inputs of the corpus for the types before stay theirs.
    add_structs(x, coordinator_structs{});
    add_structs(x, shard_structs{});
    return x;
  }();
  return inputs;
}

} // namespace

void try_one(view input) {
  choices source{input};
  const auto which = source.below(checks().size());
  checks()[which](source.rest());
}

namespace {

template <class... Ts>
bytes written(const Ts&... xs) {
  net::writer to;
  (wire::put(to, xs), ...);
  return std::move(to).bytes();
}

template <class... Ts>
std::vector<bytes> of_structs(list<Ts...>) {
  return {written(Ts{})...};
}

template <class... Ts>
constexpr int size(list<Ts...>) {
  return sizeof...(Ts);
}

/// The number of structs before this one.
template <class T, class... Ts>
constexpr int position(list<Ts...>) {
  constexpr std::array is_same{std::is_same_v<T, Ts>...};
  return int(std::ranges::find(is_same, true) - is_same.begin());
}

} // namespace

std::vector<bytes> seeds() {
  std::vector<bytes> inputs;
  int which = 0;
  const auto add = [&](const bytes& x) {
    inputs.push_back(joined({which++}, x));
  };
  const auto some = tensor::of<float>(shape{1, 3}, {1, 2, 3});
  add(written(some));
  add(written(tensor::zeros({2}, dtype::boolean), tensor{}));
  for (const auto& x : of_structs(structs{}))
    add(x);
  const int first_of_shards = int(checks().size()) - size(shard_structs{});
  const int first = first_of_shards - size(coordinator_structs{});
  which = first;
  for (const auto& x : of_structs(coordinator_structs{}))
    add(x);
  which = first + 3;
  add(written(coordinator::ended{{7, 2, 3}, {0, 2}}));
  which = first_of_shards;
  for (const auto& x : of_structs(shard_structs{}))
    add(x);
  const auto add_filled = [&]<class T>(const T& x) {
    const auto encoded = written(x);
    T decoded;
    net::reader from{encoded};
    wire::get(from, decoded);
    require(!from.finish() && written(decoded) == encoded,
            "a message can be decoded");
    which = first_of_shards + position<T>(shard_structs{});
    add(encoded);
  };
  namespace ps = parameter_server;
  const ps::push pushed{1, {2, 3, 4}, 5};
  const ps::decision decided{1, 3, {0, 2}};
  add_filled(ps::pull{1, 2, 3, 4, {0, 1}});
  add_filled(ps::pulled{1, 2, 3, 4, {5, 6}});
  add_filled(decided);
  add_filled(ps::last_decision{1, {decided}});
  add_filled(ps::record{1, 2, {pushed}, {}});
  add_filled(ps::record{1, 3, {}, {decided}});
  add_filled(ps::record{1, 3, {}, {}, 1, {}, {{1, 4, 2}}});
  add_filled(ps::snapshot{1, 2, {{4, {{4, 1}, {5, 0}}, {pushed}}}, {decided}});
  const step_commit::wait_report waits{.missing = {1, 2, 3}};
  const membership::view table{
    1, {{0, 7, "host", 80, {0}}, {1, 8, "::1", 81, {1, 2}}}};
  const node_info node{.name = "n", .version = "1", .roles = {"a", "b"}};
  for (const auto& x :
       {written(waits), written(table), written(node),
        written(tree::contribution{}, some, some),
        written(step_commit::start_steps{}, step_function_ref{{}, "run 1"})})
    for (const int guess : {15, 23, 20, 31, 40})
      inputs.push_back(joined({guess}, x));
  return inputs;
}

} // namespace troupe::fuzz
