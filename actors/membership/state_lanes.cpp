#include "troupe/actors/membership/state_lanes.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/actors/membership/cluster_impl.hpp"
#include "troupe/actors/membership/peers/join_hello.hpp"
#include "troupe/net/transport/lane_set.hpp"

#include <future>
#include <mutex>
#include <stdexcept>

namespace troupe {

using namespace std::chrono_literals;

namespace {

constexpr auto purpose = "state";

/// Time in which both sides of an accepted stream agree on the transport.
constexpr auto handshake_timeout = 2000ms;

/// What the handler of accepted streams refers to.
struct acceptor {
  std::mutex lock;
  std::function<void(state_lanes::opener)> accepted;
};

} // namespace

class cluster::impl::lanes_of_state final : public state_lanes {
public:
  explicit lanes_of_state(cluster::impl& owner)
    : owner_{owner}, router_{owner.router_} {}

  void serve(std::function<void(opener)> accepted) override {
    {
      const std::lock_guard hold{acceptor_->lock};
      acceptor_->accepted = std::move(accepted);
    }
    if (registration_)
      return;
    const auto own = owner_.own_join_request();
    registration_ = router_->serve(
      owner_.options.job, purpose,
      {[own](const net::hello& hello) { return admit(own, hello); },
       [target = acceptor_, config = lane_config(false),
        incarnation = own.incarnation](const net::hello& hello,
                                       net::accepted_connection&& accepted) {
         auto* const stream =
           std::get_if<std::unique_ptr<net::stream>>(&accepted);
         if (!stream)
           return;
         // A std::function must be copyable.
         const auto shared =
           std::make_shared<std::unique_ptr<net::stream>>(std::move(*stream));
         const std::lock_guard hold{target->lock};
         target->accepted([shared, config,
                           ends = tensor_transfer::lane_ends{
                             0, incarnation, hello.incarnation}] {
           return make_lane(std::move(*shared), config, ends);
         });
       }});
  }

  std::vector<std::uint32_t> sources() const override {
    std::vector<std::uint32_t> out;
    const auto view = owner_.current_view();
    for (auto i = view.members.rbegin(); i != view.members.rend(); ++i)
      if (i->task != owner_.options.task)
        out.push_back(i->task);
    return out;
  }

  std::unique_ptr<transfer_lane>
  open(std::uint32_t task, std::chrono::milliseconds timeout) override {
    const auto view = owner_.current_view();
    const auto* const peer = view.find(task);
    if (!peer)
      throw job_error(ec::peer_lost, owner_.options.names.at(task)
                                       + " is no member of the job any more");
    const auto dialed =
      std::make_shared<std::promise<net::endpoint::dial_result>>();
    auto result = dialed->get_future();
    router_->endpoint().dial(
      {peer->host, peer->port},
      make_stream_hello(owner_.options.job, owner_.own_name(), purpose,
                        owner_.own_join_request(), view.view_id),
      timeout, [dialed](net::endpoint::dial_result&& x) {
        dialed->set_value(std::move(x));
      });
    // `dial` reports a timeout itself; this wait only bounds it.
    if (result.wait_for(timeout + 100ms) != std::future_status::ready)
      throw job_error(ec::unreachable,
                      owner_.options.names[task] + " does not answer");
    auto attempt = result.get();
    auto* const stream =
      attempt.connection
        ? std::get_if<std::unique_ptr<net::stream>>(&*attempt.connection)
        : nullptr;
    if (!stream)
      throw job_error(attempt.rejected ? ec::refused : ec::unreachable,
                      attempt.reason);
    return make_lane(std::move(*stream), lane_config(true),
                     {0, owner_.incarnation_, peer->incarnation});
  }

  std::string name(std::uint32_t task) const override {
    return owner_.options.names.at(task);
  }

private:
  /// A process that differs from this one could not follow its updates.
  static net::hello_response admit(const membership::join_request& own,
                                   const net::hello& hello) {
    membership::join_request request;
    std::uint64_t view_id = 0;
    if (const auto fault = read_stream_hello(hello, request, view_id))
      return {false, "the hello is malformed: " + to_string(*fault), {}, {}};
    if (membership::difference(request.task, request.config, own.config))
      return {
        false, "the process has another version or other options", {}, {}};
    return {};
  }

  net::lane_options lane_config(bool is_dialer) const {
    net::lane_options out;
    out.policy = owner_.options.transport == transport_kind::automatic
                   ? net::lane_policy::automatic
                 : owner_.options.transport == transport_kind::shm
                   ? net::lane_policy::shm
                   : net::lane_policy::stream;
    out.is_dialer = is_dialer;
    out.stream_transport = router_->endpoint().uses_tls() ? "tls" : "tcp";
    out.handshake_timeout = handshake_timeout;
    return out;
  }

  static std::unique_ptr<transfer_lane>
  make_lane(std::unique_ptr<net::stream> stream,
            const net::lane_options& config,
            const tensor_transfer::lane_ends& ends) {
    std::vector<std::unique_ptr<net::stream>> streams;
    streams.push_back(std::move(stream));
    auto opened = net::open_lanes(std::move(streams), config);
    return std::make_unique<transfer_lane>(std::move(opened.lanes.front()),
                                           ends);
  }

  cluster::impl& owner_;
  const std::shared_ptr<service_router> router_;
  const std::shared_ptr<acceptor> acceptor_ = std::make_shared<acceptor>();
  std::unique_ptr<service_router::registration> registration_;
};

std::unique_ptr<state_lanes> make_state_lanes(cluster& job_cluster) {
  return job_cluster.implementation().make_state_lanes();
}

std::unique_ptr<state_lanes> cluster::impl::make_state_lanes() {
  return std::make_unique<lanes_of_state>(*this);
}

} // namespace troupe
