#include "troupe/actors/membership/vacancy_finder.hpp"

#include "troupe/actors/core/spawn.hpp"
#include "troupe/actors/node/blocking_client.hpp"
#include "troupe/actors/protocol/node_actor.hpp"
#include "troupe/actors/remoting/proxy.hpp"

#include <algorithm>
#include <future>
#include <stdexcept>
#include <thread>

namespace troupe {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

/// Bounds of the time between two queries, which is drawn at random.
constexpr milliseconds min_pause{400}, max_pause{600};
constexpr milliseconds dial_timeout{1000};
constexpr milliseconds request_timeout{2000};
/// As `vacancy_finder_options::end_timeout` if some hosts are silent.
constexpr milliseconds silent_end_timeout{30'000};

net::endpoint::dial_result dial(net::endpoint& endpoint,
                                const net::address& target,
                                const net::hello& hello) {
  const auto done =
    std::make_shared<std::promise<net::endpoint::dial_result>>();
  auto result = done->get_future();
  endpoint.dial(
    target, hello, dial_timeout,
    [done](net::endpoint::dial_result&& x) { done->set_value(std::move(x)); });
  return result.get();
}

bool is_usable(const membership::member& x) {
  return !x.host.empty() && x.port != 0;
}

} // namespace

vacancy_finder::vacancy_finder(caf::actor_system& system,
                               std::shared_ptr<service_router> router,
                               vacancy_finder_options options)
  : system_{system},
    router_{std::move(router)},
    options_{std::move(options)},
    random_{std::random_device{}()},
    end_{clock::now() + options_.timeout},
    addresses_{options_.addresses} {
  std::ranges::shuffle(addresses_, random_);
}

vacancy_finder::~vacancy_finder() {
  disconnect();
}

vacancy_finder::vacancy vacancy_finder::next(const std::string& failure) {
  if (std::exchange(has_called_, true))
    pause();
  for (;;) {
    const auto answer = ask_any_member();
    if (answer && !answer->tasks.empty()) {
      if (!failure.empty() && clock::now() >= end_)
        throw job_error{ec::stalled,
                        "a spare for any task could not take a vacant one "
                        "within "
                          + timeout_text() + "; the last attempt: " + failure};
      const auto& tasks = answer->tasks;
      std::uniform_int_distribution<std::size_t> any{0, tasks.size() - 1};
      return {tasks[any(random_)], answer->view};
    }
    throw_if_over();
    pause();
  }
}

bool vacancy_finder::is_vacant(std::uint32_t task) {
  const auto answer = ask_any_member();
  return answer && std::ranges::count(answer->tasks, task) > 0;
}

/// Asks the member to which this process is connected, or else the first one
/// that answers and belongs to the job.
/// @returns an empty view if no such member answers, but a process that did not
///          enter the job yet, or does not belong to it any more.
std::optional<membership::vacancies> vacancy_finder::ask_any_member() {
  const auto rounds = addresses_.size() + 1; // the first may be a lost member
  bool is_every_host_up = true;
  std::optional<membership::vacancies> answer_of_other;
  for (std::size_t i = 0; i < rounds && (i == 0 || clock::now() < end_); ++i) {
    const auto& address = addresses_[next_address_ % addresses_.size()];
    try {
      if (connection_ || connect(address)) {
        auto answer = ask<membership::vacancies>(
          system_, member_name_, member_, request_timeout, atom::vacant_v);
        check(answer);
        last_answer_ = clock::now();
        problem_.clear();
        use_addresses_of(answer.view);
        log_first_answer(answer.view);
        if (answer.view.view_id > 0)
          return answer;
        answer_of_other = std::move(answer);
      }
    } catch (const spare_not_needed&) {
      throw;
    } catch (const job_error& e) {
      if (e.code == ec::refused)
        throw;
      is_every_host_up =
        is_every_host_up && e.code != ec::unreachable && e.code != ec::stalled;
      problem_ = e.what();
    }
    disconnect();
    ++next_address_;
  }
  is_every_host_up_ = is_every_host_up;
  if (!last_answer_ && !std::exchange(has_logged_silence_, true)
      && options_.log)
    options_.log(net::severity::warning,
                 "no process of the job answers this spare yet: " + problem_);
  return answer_of_other;
}

/// @errors throws `job_error`: ec::refused if a process of the job rejects the
///         spare, ec::unreachable if the host is silent.
bool vacancy_finder::connect(const net::address& address) {
  net::endpoint::dial_result attempt;
  try {
    attempt = dial(router_->endpoint(), address, options_.hello);
  } catch (const std::invalid_argument& e) { // a member sent the address
    throw job_error{ec::protocol, e.what()};
  }
  auto* const connection =
    attempt.connection
      ? std::get_if<std::shared_ptr<net::connection>>(&*attempt.connection)
      : nullptr;
  if (connection) {
    connection_ = std::move(*connection);
    member_name_ = attempt.peer.name;
    member_ =
      spawn_proxy<vacancy_actor>(system_, connection_->open(root_channel),
                                 {.request_timeout = request_timeout});
    release_caf_logger();
    return true;
  }
  // Only a process of the job answers with a hello.
  if (attempt.rejected && !attempt.peer.job.empty())
    throw job_error{ec::refused, "this process cannot be a spare of the job: "
                                   + attempt.reason};
  throw job_error{!attempt.rejected
                      && attempt.cause == net::close_reason::timed_out
                    ? ec::unreachable
                    : ec::peer_lost,
                  attempt.reason};
}

void vacancy_finder::disconnect() {
  member_ = nullptr;
  if (const auto before = std::exchange(connection_, nullptr))
    before->close("the spare is done");
}

/// @errors throws `job_error` (ec::protocol) if the answer is impossible.
void vacancy_finder::check(const membership::vacancies& answer) const {
  const auto count = options_.names.size();
  const auto is_known = [&](const membership::member& x) {
    return x.task < count;
  };
  const auto is_possible = [&](std::uint32_t task) {
    return task < count && !answer.view.find(task);
  };
  if (!std::ranges::all_of(answer.view.members, is_known)
      || !std::ranges::all_of(answer.tasks, is_possible)
      || (answer.view.members.empty() && !answer.tasks.empty()))
    throw job_error{ec::protocol,
                    member_name_ + " names impossible tasks of the job"};
}

/// Later attempts dial the members of the view first, and then the addresses of
/// the cluster.
void vacancy_finder::use_addresses_of(const membership::view& view) {
  if (view.view_id <= view_id_)
    return;
  view_id_ = view.view_id;
  addresses_.clear();
  for (const auto& x : view.members)
    if (is_usable(x))
      addresses_.push_back({x.host, x.port});
  std::ranges::shuffle(addresses_, random_);
  for (const auto& x : options_.addresses)
    if (std::ranges::count(addresses_, x) == 0)
      addresses_.push_back(x);
  next_address_ = 0;
}

void vacancy_finder::log_first_answer(const membership::view& view) {
  if (view.view_id == 0 || std::exchange(has_logged_wait_, true)
      || !options_.log)
    return;
  options_.log(net::severity::warning,
               "this process is a spare for any task: it waits at "
                 + net::to_string(router_->endpoint().advertised_address())
                 + " until the job lacks one; " + member_name_
                 + " answers, view " + std::to_string(view.view_id) + " has "
                 + std::to_string(view.members.size()) + " of "
                 + std::to_string(options_.names.size()) + " processes");
}

/// @pre no task is vacant, or no member has answered.
void vacancy_finder::throw_if_over() const {
  const auto now = clock::now();
  const auto limit =
    is_every_host_up_ ? options_.end_timeout : silent_end_timeout;
  if (!problem_.empty() && last_answer_ && now - *last_answer_ >= limit)
    throw spare_not_needed{ec::peer_lost,
                           "the job has ended; the spare was not needed (no "
                           "process of the job answers any more)"};
  if (now < end_)
    return;
  const auto timeout = timeout_text();
  if (last_answer_)
    throw job_error{ec::stalled, "a spare for any task was not needed: within "
                                   + timeout + ", the job lacked no task"};
  throw job_error{ec::stalled,
                  "no process of job \"" + options_.job
                    + "\" answered a spare for any task within " + timeout
                    + ": " + problem_
                    + "; start the job, give the addresses of its cluster, or "
                      "a longer timeout (--spare)"};
}

std::string vacancy_finder::timeout_text() const {
  return "the spare timeout of " + std::to_string(options_.timeout.count())
         + " ms";
}

void vacancy_finder::pause() {
  std::uniform_int_distribution<milliseconds::rep> any{min_pause.count(),
                                                       max_pause.count()};
  const auto left =
    std::chrono::ceil<milliseconds>(std::max(end_ - clock::now(), 0ns));
  std::this_thread::sleep_for(
    std::min<milliseconds>(milliseconds{any(random_)}, left));
}

} // namespace troupe
