#include "troupe/training/remote/worker_client.hpp"

#include "troupe/actors/core/spawn.hpp"

#include <caf/event_based_actor.hpp>

#include <algorithm>
#include <condition_variable>
#include <mutex>

namespace troupe {

namespace {

using std::chrono::milliseconds;

/// Added to timeouts here, because a proxy reports its own timeout with a
/// reason.
constexpr milliseconds slack{500};

/// State shared by the requesting actor and the thread that waits.
class desk {
public:
  explicit desk(std::size_t workers) : answers_(workers) {}

  void put(std::size_t worker, worker_answer&& x) {
    const std::lock_guard hold{lock_};
    failed_ = failed_ || (!x.news.done && x.news.here);
    answers_[worker] = std::move(x);
    news_.notify_all();
  }

  std::vector<worker_answer> wait(milliseconds patience) {
    std::unique_lock hold{lock_};
    const bool in_time = news_.wait_for(hold, patience, [this] {
      return failed_ || std::ranges::all_of(answers_, [](const auto& x) {
               return x.has_value();
             });
    });
    std::vector<worker_answer> out;
    for (auto& x : answers_)
      out.push_back(x ? std::move(*x)
                      : worker_answer{{.here = !in_time,
                                       .code = ec::stalled,
                                       .why = "it did not respond"},
                                      {}});
    return out;
  }

private:
  std::mutex lock_;
  std::condition_variable news_;
  std::vector<std::optional<worker_answer>> answers_;
  bool failed_ = false;
};

/// Sends a request to each worker and waits for the replies.
/// @param request `(actor, worker, index, timeout, on_reply, on_error)`: sends
///             the request to one worker.
template <class Ask>
std::vector<worker_answer> ask_all(caf::actor_system& in,
                                   const std::vector<worker_actor>& workers,
                                   milliseconds patience, Ask ask) {
  const auto at = std::make_shared<desk>(workers.size());
  in.spawn([=](caf::event_based_actor* self) {
    for (std::size_t i = 0; i < workers.size(); ++i)
      ask(
        self, workers[i], i, patience + slack,
        [=](worker_answer&& x) { at->put(i, std::move(x)); },
        [=](const caf::error& e) {
          const auto note = wire::note_of(e, self->system());
          at->put(i, {{.code = note.code, .why = note.text}, {}});
        });
  });
  forget_logger();
  return at->wait(patience + 2 * slack);
}

} // namespace

std::vector<worker_answer> join_all(caf::actor_system& in,
                                    const std::vector<worker_actor>& workers,
                                    milliseconds patience) {
  return ask_all(in, workers, patience,
                 [](auto* self, const worker_actor& who, std::size_t,
                    milliseconds limit, auto heard, auto failed) {
                   self->request(who, limit, atom::who_v)
                     .then(
                       [=](worker_news& x) {
                         heard({std::move(x), {}});
                       },
                       failed);
                 });
}

std::vector<worker_answer> run_all(caf::actor_system& in,
                                   const std::vector<worker_actor>& workers,
                                   const worker_task& task,
                                   milliseconds patience) {
  return ask_all(in, workers, patience,
                 [task](auto* self, const worker_actor& who, std::size_t i,
                        milliseconds limit, auto heard, auto failed) {
                   self
                     ->request(who, limit, atom::run_v, task.what, task.number,
                               task.parts[i], task.inputs[i])
                     .then(
                       [=](worker_news& x, tensors& out) {
                         heard({std::move(x), std::move(out)});
                       },
                       failed);
                 });
}

void leave_all(caf::actor_system& in, const std::vector<worker_actor>& workers,
               milliseconds patience) {
  ask_all(in, workers, patience,
          [](auto* self, const worker_actor& who, std::size_t,
             milliseconds limit, auto heard, auto failed) {
            self->request(who, limit, atom::stop_v)
              .then(
                [=](bool done) {
                  heard({{.done = done, .here = false}, {}});
                },
                failed);
          });
}

std::optional<worker_fault>
fault_among(const std::vector<worker_answer>& answers) {
  std::optional<worker_fault> found;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const auto& x = answers[i].news;
    if (x.done)
      continue;
    if (!found || x.here)
      found = worker_fault{i, x.code, x.why};
    if (x.here)
      break;
  }
  return found;
}

} // namespace troupe
