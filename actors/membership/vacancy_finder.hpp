#pragma once

#include "troupe/actors/membership/spare_not_needed.hpp"
#include "troupe/actors/protocol/vacancy_actor.hpp"
#include "troupe/net/base/address.hpp"
#include "troupe/net/base/log_function.hpp"
#include "troupe/net/session/service_router.hpp"

#include <caf/actor_system.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace troupe {

struct vacancy_finder_options {
  std::string job;                       ///< Name of the job.
  std::vector<net::address> addresses{}; ///< Address of every task.
  std::vector<std::string> names{};      ///< Display name of every task.
  /// Hello of the spare, with its configuration.
  net::hello hello{};
  /// Maximum time of all waits together.
  std::chrono::milliseconds timeout{0};
  /// If members have answered and none does for this time, and their hosts say
  /// that no process listens, the job has ended.
  std::chrono::milliseconds end_timeout{1000};
  net::log_function log{}; ///< Null: no log.
};

/// Finds a vacant task of a running job for a spare.
///
///   who      a spare, and one member of the job at a time
///   start    dials the addresses of the cluster, in random order, until a
///            member answers
///   cost     a request to this member about every 500 ms; a handshake only
///            with the first one, and if a member does not answer any more or
///            does not belong to the job any more
///   on answer  with a vacant task: it is found
///            with a view: its members are dialed before the other addresses
///   end      the timeout; or no member answers any more: the job has ended
///   faults   the member rejects the spare's configuration -> `job_error`
class vacancy_finder {
public:
  /// A task that a spare may take.
  struct vacancy {
    std::uint32_t task = 0;
    membership::view view; ///< View that lacks the task.
  };

  /// @param router listens at the address of the spare.
  vacancy_finder(caf::actor_system& system,
                 std::shared_ptr<service_router> router,
                 vacancy_finder_options options);
  /// Closes the connection to the member.
  ~vacancy_finder();
  vacancy_finder(const vacancy_finder&) = delete;
  vacancy_finder& operator=(const vacancy_finder&) = delete;

  /// Waits until a member says that a task is vacant. It chooses one of several
  /// at random. A later call begins with a pause.
  /// @param failure why the task of the call before could not be taken. Empty:
  ///                this is the first call.
  /// @errors throws `spare_not_needed` if the job has ended, and `job_error`:
  ///         ec::stalled if the timeout expires, and ec::refused if a member
  ///         rejects the spare.
  vacancy next(const std::string& failure = {});

  /// Asks whether a task is vacant. False: it is not, or no member answers.
  bool is_vacant(std::uint32_t task);

private:
  using clock = std::chrono::steady_clock;

  std::optional<membership::vacancies> ask_any_member();
  bool connect(const net::address& member);
  void disconnect();
  void check(const membership::vacancies& answer) const;
  void use_addresses_of(const membership::view& view);
  void log_first_answer(const membership::view& view);
  void throw_if_over() const;
  std::string timeout_text() const;
  void pause();

  caf::actor_system& system_;
  std::shared_ptr<service_router> router_;
  vacancy_finder_options options_;
  std::mt19937_64 random_;
  clock::time_point end_;
  /// In the order in which they are dialed. Not empty.
  std::vector<net::address> addresses_;
  std::size_t next_address_ = 0;
  std::uint64_t view_id_ = 0; ///< Id of the view whose addresses are used.
  std::shared_ptr<net::connection> connection_; ///< Null: to no member.
  vacancy_actor member_; ///< Proxy of the member. Null: none.
  std::string member_name_;
  /// Time of the last answer. None: no member has answered.
  std::optional<clock::time_point> last_answer_;
  /// In the last round no host was silent: none of them has a process that
  /// belongs to the job.
  bool is_every_host_up_ = false;
  std::string problem_; ///< Why the last attempt failed. Empty: it did not.
  bool has_called_ = false, has_logged_wait_ = false,
       has_logged_silence_ = false;
};

} // namespace troupe
