#include "troupe/training/remote/worker_client.hpp"

#include "troupe/actors/core/spawn.hpp"

#include <caf/event_based_actor.hpp>

#include <algorithm>
#include <condition_variable>
#include <mutex>

namespace troupe {

namespace {

using std::chrono::milliseconds;

/// The actor that sends a request waits for the request's timeout plus this
/// margin. The thread that waits for the replies waits for that timeout plus
/// two margins. The proxy of a worker adds no margin to the timeout of
/// `join_all` and `run_all`, so it reports their timeout first, with a reason.
constexpr milliseconds reply_margin{500};

/// Says whether the connection to the worker was lost.
bool is_lost(const worker_status& status) {
  return !status.done && status.failed_here
         && (status.code == ec::peer_lost || status.code == ec::unreachable);
}

/// Collects the replies. The actor that sends the requests and the thread that
/// waits share this object.
class reply_collector {
public:
  explicit reply_collector(std::size_t workers) : replies_(workers) {}

  void add(std::size_t worker, worker_reply&& reply) {
    const std::lock_guard hold{lock_};
    failed_ = failed_ || (!reply.status.done && reply.status.failed_here);
    lost_ = lost_ || is_lost(reply.status);
    replies_[worker] = std::move(reply);
    changed_.notify_all();
  }

  std::vector<worker_reply> wait(milliseconds timeout,
                                 milliseconds after_failure) {
    std::unique_lock hold{lock_};
    const bool in_time = changed_.wait_for(
      hold, timeout, [this] { return failed_ || is_complete(); });
    if (in_time)
      changed_.wait_for(hold, after_failure,
                        [this] { return lost_ || is_complete(); });
    std::vector<worker_reply> out;
    for (auto& x : replies_)
      out.push_back(x ? std::move(*x)
                      : worker_reply{{.failed_here = !in_time,
                                      .code = ec::stalled,
                                      .error_text = "it did not respond"},
                                     {}});
    return out;
  }

private:
  bool is_complete() const {
    return std::ranges::all_of(replies_,
                               [](const auto& x) { return x.has_value(); });
  }

  std::mutex lock_;
  std::condition_variable changed_;
  std::vector<std::optional<worker_reply>> replies_;
  bool failed_ = false, lost_ = false;
};

/// Sends a request to each worker and waits for the replies.
/// @param request function that sends the request to one worker, with the
///        arguments `(actor, worker, index, timeout, on_reply, on_error)`.
template <class Ask>
std::vector<worker_reply>
request_all(caf::actor_system& system, const std::vector<worker_actor>& workers,
            milliseconds timeout, milliseconds after_failure, Ask request) {
  const auto collector = std::make_shared<reply_collector>(workers.size());
  system.spawn([=](caf::event_based_actor* self) {
    for (std::size_t i = 0; i < workers.size(); ++i)
      request(
        self, workers[i], i, timeout + reply_margin,
        [=](worker_reply&& x) { collector->add(i, std::move(x)); },
        [=](const caf::error& e) {
          const auto note = wire::to_wire(e, self->system());
          collector->add(i, {{.code = note.code, .error_text = note.text}, {}});
        });
  });
  release_caf_logger();
  return collector->wait(timeout + 2 * reply_margin, after_failure);
}

} // namespace

std::vector<worker_reply> join_all(caf::actor_system& system,
                                   const std::vector<worker_actor>& workers,
                                   milliseconds timeout,
                                   milliseconds after_failure) {
  return request_all(system, workers, timeout, after_failure,
                     [](auto* self, const worker_actor& worker, std::size_t,
                        milliseconds limit, auto on_reply, auto on_error) {
                       self->request(worker, limit, atom::info_v)
                         .then(
                           [=](worker_status& x) {
                             on_reply({std::move(x), {}});
                           },
                           on_error);
                     });
}

std::vector<worker_reply> run_all(caf::actor_system& system,
                                  const std::vector<worker_actor>& workers,
                                  const worker_request& task,
                                  milliseconds timeout,
                                  milliseconds after_failure) {
  return request_all(
    system, workers, timeout, after_failure,
    [task](auto* self, const worker_actor& worker, std::size_t i,
           milliseconds limit, auto on_reply, auto on_error) {
      self
        ->request(worker, limit, atom::run_v, task.function, task.number,
                  task.tensor_counts[i], task.inputs[i])
        .then(
          [=](worker_status& x, tensors& out) {
            on_reply({std::move(x), std::move(out)});
          },
          on_error);
    });
}

void leave_all(caf::actor_system& system,
               const std::vector<worker_actor>& workers, milliseconds timeout) {
  request_all(system, workers, timeout, milliseconds{0},
              [](auto* self, const worker_actor& worker, std::size_t,
                 milliseconds limit, auto on_reply, auto on_error) {
                self->request(worker, limit, atom::stop_v)
                  .then(
                    [=](bool done) {
                      on_reply({{.done = done, .failed_here = false}, {}});
                    },
                    on_error);
              });
}

std::optional<worker_failure>
find_failure(const std::vector<worker_reply>& replies) {
  const auto first = [&](auto holds) -> std::optional<worker_failure> {
    const auto at = std::ranges::find_if(replies, holds, &worker_reply::status);
    if (at == replies.end())
      return std::nullopt;
    return worker_failure{static_cast<std::size_t>(at - replies.begin()),
                          at->status.code, at->status.error_text};
  };
  if (auto lost = first(is_lost))
    return lost;
  if (auto failed =
        first([](const worker_status& x) { return !x.done && x.failed_here; }))
    return failed;
  return first([](const worker_status& x) { return !x.done; });
}

} // namespace troupe
