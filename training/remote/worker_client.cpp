#include "troupe/training/remote/worker_client.hpp"

#include "troupe/actors/core/spawn.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

namespace troupe {

bool is_lost(const worker_status& status) {
  return !status.done && status.failed_here
         && (status.code == ec::peer_lost || status.code == ec::unreachable);
}

bool has_failed_itself(const worker_status& status) {
  return !status.done && status.failed_here && !is_lost(status);
}

namespace {

using std::chrono::milliseconds;

/// The actor that sends a request waits for the request's timeout plus this
/// margin. The thread that waits for the replies waits for that timeout plus
/// two margins. The proxy of a worker adds no margin to the timeout of
/// `join_all` and `run_all`, so it reports their timeout first, with a reason.
constexpr milliseconds reply_margin{500};

/// Inputs that a connection did not accept are sent again after this time.
constexpr milliseconds resend_interval{100};

/// Whether the loss of a worker ends the wait for the others.
enum class on_loss : std::uint8_t { fail, go_on };

/// Collects the replies. The actor that sends the requests and the thread that
/// waits share this object.
class reply_collector {
public:
  reply_collector(const worker_list& workers, on_loss losses)
    : replies_(workers.size()), losses_{losses} {
    for (std::size_t i = 0; i < workers.size(); ++i)
      if (!workers[i])
        replies_[i] = worker_reply{
          {.code = ec::peer_lost, .error_text = "it was lost before"}, {}};
  }

  void add(std::size_t worker, worker_reply&& reply) {
    const std::lock_guard hold{lock_};
    const bool lost = is_lost(reply.status) && losses_ == on_loss::fail;
    lost_ |= lost;
    failed_ |= lost || has_failed_itself(reply.status);
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
  const on_loss losses_;
  bool failed_ = false, lost_ = false;
};

/// Sends a request to each worker and waits for the replies.
/// @param request function that sends the request to one worker, with the
///        arguments `(actor, worker, index, timeout, on_reply, on_error)`.
/// @param on_begin called in the actor after the requests were sent.
/// @param on_end called in the actor for each reply, with the actor, the index
///        of the worker and its status.
template <class Ask, class OnBegin, class OnEnd>
std::vector<worker_reply>
request_all(caf::actor_system& system, const worker_list& workers,
            on_loss losses, milliseconds timeout, milliseconds after_failure,
            Ask request, OnBegin on_begin, OnEnd on_end) {
  const auto collector = std::make_shared<reply_collector>(workers, losses);
  system.spawn([=](caf::event_based_actor* self) {
    const auto end = [=](std::size_t i, worker_reply&& x) {
      on_end(self, i, x.status);
      collector->add(i, std::move(x));
    };
    for (std::size_t i = 0; i < workers.size(); ++i)
      if (workers[i])
        request(
          self, workers[i], i, timeout + reply_margin,
          [=](worker_reply&& x) { end(i, std::move(x)); },
          [=](const caf::error& e) {
            const auto note = wire::to_wire(e, self->system());
            end(i, {{.code = note.code, .error_text = note.text}, {}});
          });
    on_begin(self);
  });
  release_caf_logger();
  return collector->wait(timeout + 2 * reply_margin, after_failure);
}

template <class Ask>
std::vector<worker_reply> request_all(caf::actor_system& system,
                                      const worker_list& workers,
                                      on_loss losses, milliseconds timeout,
                                      milliseconds after_failure, Ask request) {
  return request_all(
    system, workers, losses, timeout, after_failure, request, [](auto*) {},
    [](auto*, std::size_t, const worker_status&) {});
}

/// A request while it runs: sends each worker its inputs, and those of lost
/// workers to the others.
class input_sender {
public:
  input_sender(const worker_list& workers, const worker_request& task,
               milliseconds timeout)
    : workers_{workers}, task_{task}, timeout_{timeout} {}

  /// Returns the inputs of the replicas that a worker is known to host.
  input_list first_inputs(std::size_t worker) const {
    return task_.by_replica.empty()
             ? input_list{{},
                          {static_cast<std::uint32_t>(task_.common.size())},
                          task_.common}
             : inputs_of(task_.placement[worker]);
  }

  /// Sends the inputs of the replicas that no worker is known to host.
  void send_orphans(caf::event_based_actor* self) {
    std::set<std::uint32_t> orphans;
    for (std::uint32_t id = 0; id < task_.by_replica.size(); ++id)
      orphans.insert(id);
    for (std::size_t w = 0; w < workers_.size(); ++w)
      for (const auto id : task_.placement[w])
        if (workers_[w])
          orphans.erase(id);
    send_to_all(self, {orphans.begin(), orphans.end()});
  }

  /// Called after the requests were sent. The actor quits when all workers have
  /// replied.
  void begin(caf::event_based_actor* self,
             const std::shared_ptr<input_sender>& shared) {
    self->become([self, shared](atom::inputs, std::uint64_t worker,
                                std::uint32_t replica) {
      shared->send(self, worker, replica);
    });
    send_orphans(self);
    quit_if_complete(self);
  }

  void on_reply(caf::event_based_actor* self, std::size_t worker,
                const worker_status& status) {
    has_replied_.insert(worker);
    if (!status.done && !has_failed_itself(status) && !task_.by_replica.empty())
      send_to_all(self, task_.placement[worker]);
    quit_if_complete(self);
  }

  const worker_request& task() const { return task_; }

private:
  input_list inputs_of(const std::vector<std::uint32_t>& replicas) const {
    input_list out;
    for (const auto id : replicas) {
      const auto& mine = task_.by_replica.at(id);
      out.replica_ids.push_back(id);
      out.tensor_counts.push_back(static_cast<std::uint32_t>(mine.size()));
      out.all.insert(out.all.end(), mine.begin(), mine.end());
    }
    return out;
  }

  /// Sends inputs to the workers that have not replied, those of each replica
  /// in a message of its own. Together they may be too large for one.
  void send_to_all(caf::event_based_actor* self,
                   const std::vector<std::uint32_t>& replicas) {
    for (std::size_t w = 0; w < workers_.size(); ++w)
      for (const auto id : replicas)
        send(self, w, id);
  }

  /// A worker that takes over the replica waits for its inputs, so they are
  /// sent again if the connection accepts no message now.
  void send(caf::event_based_actor* self, std::size_t worker,
            std::uint32_t replica) {
    if (!workers_[worker] || has_replied_.contains(worker))
      return;
    const auto inputs = inputs_of({replica});
    self
      ->request(workers_[worker], timeout_, atom::inputs_v, task_.number,
                inputs.replica_ids, inputs.tensor_counts, inputs.all)
      .then([](bool) {},
            [=, this](const caf::error& e) {
              // Of other errors, the reply to `run` says more.
              if (e == ec::busy)
                send_later(self, worker, replica);
            });
  }

  void send_later(caf::event_based_actor* self, std::size_t worker,
                  std::uint32_t replica) {
    self->delayed_send(self, resend_interval, atom::inputs_v,
                       std::uint64_t{worker}, replica);
  }

  void quit_if_complete(caf::event_based_actor* self) const {
    for (std::size_t w = 0; w < workers_.size(); ++w)
      if (workers_[w] && !has_replied_.contains(w))
        return;
    self->quit();
  }

  const worker_list workers_;
  const worker_request task_;
  const milliseconds timeout_;
  std::set<std::size_t> has_replied_;
};

} // namespace

std::vector<worker_reply> join_all(caf::actor_system& system,
                                   const worker_list& workers,
                                   milliseconds timeout,
                                   milliseconds after_failure) {
  return request_all(system, workers, on_loss::fail, timeout, after_failure,
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
                                  const worker_list& workers,
                                  const worker_request& task,
                                  milliseconds timeout,
                                  milliseconds after_failure) {
  const auto sender = std::make_shared<input_sender>(workers, task, timeout);
  return request_all(
    system, workers, on_loss::go_on, timeout, after_failure,
    [sender](auto* self, const worker_actor& worker, std::size_t i,
             milliseconds limit, auto on_reply, auto on_error) {
      const auto inputs = sender->first_inputs(i);
      self
        ->request(worker, limit, atom::run_v, sender->task().function,
                  sender->task().number, inputs.replica_ids,
                  inputs.tensor_counts, inputs.all)
        .then(
          [=](worker_status& x, tensors& out) {
            on_reply({std::move(x), std::move(out)});
          },
          on_error);
    },
    [sender](auto* self) { sender->begin(self, sender); },
    [sender](auto* self, std::size_t worker, const worker_status& status) {
      sender->on_reply(self, worker, status);
    });
}

std::vector<worker_reply> admit_on_all(caf::actor_system& system,
                                       const worker_list& workers,
                                       std::size_t joiner, std::uint64_t number,
                                       std::uint64_t incarnation,
                                       milliseconds timeout,
                                       milliseconds after_failure) {
  struct admission {
    std::size_t open = 0; ///< Members that have not replied.
    bool is_done = false; ///< A member has admitted the process.
    std::function<void(const caf::error&)> refuse; ///< Ends the joiner's wait.
  };
  const auto state = std::make_shared<admission>();
  for (std::size_t w = 0; w < workers.size(); ++w)
    state->open += w != joiner && workers[w] ? 1 : 0;
  return request_all(
    system, workers, on_loss::go_on, timeout, after_failure,
    [=](auto* self, const worker_actor& worker, std::size_t i,
        milliseconds limit, auto on_reply, auto on_error) {
      if (i == joiner)
        state->refuse = on_error;
      self->request(worker, limit, atom::admit_v, number, incarnation)
        .then(
          [=](worker_status& x) {
            on_reply({std::move(x), {}});
          },
          on_error);
    },
    [](auto*) {},
    [=](auto*, std::size_t worker, const worker_status& status) {
      if (worker == joiner) {
        state->refuse = nullptr;
        return;
      }
      state->is_done |= status.done;
      if (--state->open == 0 && !state->is_done && state->refuse)
        std::exchange(state->refuse,
                      nullptr)(caf::make_error(status.code, status.error_text));
    });
}

void leave_all(caf::actor_system& system, const worker_list& workers,
               milliseconds timeout) {
  request_all(system, workers, on_loss::go_on, timeout, milliseconds{0},
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

worker_reply results_of(caf::actor_system& system, const worker_actor& worker,
                        std::uint64_t number,
                        const std::vector<std::uint32_t>& replicas,
                        milliseconds timeout) {
  return request_all(system, {worker}, on_loss::fail, timeout, milliseconds{0},
                     [=](auto* self, const worker_actor& to, std::size_t,
                         milliseconds limit, auto on_reply, auto on_error) {
                       self
                         ->request(to, limit, atom::results_v, number, replicas)
                         .then(
                           [=](worker_status& x, tensors& out) {
                             on_reply({std::move(x), std::move(out)});
                           },
                           on_error);
                     })
    .front();
}

std::vector<worker_reply> probe_all(caf::actor_system& system,
                                    const worker_list& workers,
                                    milliseconds timeout) {
  return request_all(system, workers, on_loss::go_on, timeout, milliseconds{0},
                     [](auto* self, const worker_actor& worker, std::size_t,
                        milliseconds limit, auto on_reply, auto on_error) {
                       self
                         ->request(worker, limit, atom::inputs_v,
                                   std::uint64_t{0},
                                   std::vector<std::uint32_t>{},
                                   std::vector<std::uint32_t>{}, tensors{})
                         .then(
                           [=](bool) {
                             on_reply({{.done = true}, {}});
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
  if (auto failed = first(has_failed_itself))
    return failed;
  return first([](const worker_status& x) { return !x.done; });
}

} // namespace troupe
