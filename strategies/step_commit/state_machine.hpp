#pragma once

#include "troupe/strategies/fields.hpp"
#include "troupe/strategies/step_commit/step_report.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

/// Steps are granted ahead and committed in order: R replicas work on the same
/// steps, and a step counts once all of them reported it. This is the chief.
///
///   who      a chief, R replicas; R is fixed for life
///   says     the chief: seat, order, grant, and probe to ask why nothing
///   moves.
///            a replica: seated, report, failed, and blame in answer to a probe
///   opens    with an epoch: everybody is sent a seat of it and leaves whatever
///            step of an older one it is in
///   on seated   from all: order the work, granting `lease` steps
///   on report   from all, in order of steps: commit, grant one step more
///   on failed   end the work: open the next epoch, say why when all left
///   on lost     likewise; the replica stays lost. Of a whole process: probe
///               first, so that the name of the operation can be told
///   on late     nothing moved for too long: probe, then end the work with the
///               name of what was waited for, and of those who are missing
///   ends     when the last granted step is committed; `stop` grants no more
///   costs    R reports a step and R grants for each quarter of the lease, none
///            of which a step waits for; R seats, seateds and orders an epoch.
///            Whoever does not take his seat is sent it once more
///   order    the totals are added in tree order over replica ids
///   if       older epoch, another incarnation than the one that is seated, or
///            said twice                                  -> ignored
///            report of a step not granted, unknown replica -> fault: the work
///                                                  ends as `cause::protocol`
///            blame of an unknown replica, or one that names more replicas
///            than there are               -> ignored
namespace troupe::commit {

using troupe::inspect, troupe::serialize;

// -- messages -----------------------------------------------------------------

struct seat {
  std::uint64_t epoch = 0;
  std::uint32_t replica = 0;
  std::uint32_t replicas = 1;
  auto fields() { return std::tie(epoch, replica, replicas); }
};

/// The step function travels beside it.
struct order {
  std::uint64_t epoch = 0;
  std::uint64_t first = 0; ///< Step.
  std::uint64_t until = 0; ///< Steps before it are granted.
  auto fields() { return std::tie(epoch, first, until); }
};

struct grant {
  std::uint64_t epoch = 0;
  std::uint64_t until = 0;
  auto fields() { return std::tie(epoch, until); }
};

struct probe {
  std::uint64_t epoch = 0;
  std::uint64_t step = 0; ///< The one that does not come to its end.
  auto fields() { return std::tie(epoch, step); }
};

struct seated {
  std::uint64_t epoch = 0;
  std::uint32_t replica = 0;
  std::uint32_t incarnation = 0;
  std::uint64_t next = 0; ///< The first step that it did not apply.
  auto fields() { return std::tie(epoch, replica, incarnation, next); }
};

struct report {
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
  std::uint32_t replica = 0;
  std::uint32_t incarnation = 0;
  step_report what;
  auto fields() { return std::tie(epoch, step, replica, incarnation, what); }
};

/// Why work ends; who reacts differently is a caller of the crew.
enum class cause : std::uint8_t {
  stalled,
  lost, ///< Known to be dead.
  invalid,
  protocol,
  unreachable, ///< Nothing is heard of it.
};

struct failed {
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
  std::uint32_t replica = 0;
  std::uint32_t incarnation = 0;
  cause code = cause::invalid;
  std::string why;
  auto fields() {
    return std::tie(epoch, step, replica, incarnation, code, why);
  }
};

enum class doing : std::uint8_t { idle, computing, sum, gather, adding };

/// What somebody waits for.
struct blame {
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
  bool reducer = false; ///< Who speaks: a reducer or a replica.
  std::uint32_t id = 0; ///< Its number.
  doing what = doing::idle;
  std::uint32_t bucket = 0;           ///< Of a sum or gather.
  std::vector<std::uint32_t> missing; ///< Replicas, as far as it can tell.
  auto fields() {
    return std::tie(epoch, step, reducer, id, what, bucket, missing);
  }
};

// -- reactions ----------------------------------------------------------------

struct send_seats {
  seat to_all; ///< `replica` is for the sender to fill in.
  std::vector<std::uint32_t> whom;
};
struct send_orders {
  order to_all;
};
struct send_grants {
  grant to_all;
};
struct send_probes {
  probe to_all;
};
struct committed {
  commit_record record;
};
struct ended {
  std::uint64_t next = 0; ///< The first step that was not run.
};
struct given_up {
  cause code = cause::stalled;
  std::string why;
};
using effect = std::variant<send_seats, send_orders, send_grants, send_probes,
                            committed, ended, given_up>;
/// In the order in which they are to happen.
using reaction = std::vector<effect>;

// -- the machine --------------------------------------------------------------

/// Which process holds which replicas.
struct places {
  std::vector<std::string> names;   ///< "chief 0", "worker 1".
  std::vector<std::uint32_t> first; ///< [P + 1] replicas, ascending from 0.

  bool several() const { return names.size() > 1; }
  /// "replica 2", and of several processes " of worker 1".
  std::string name_of(std::uint32_t replica) const;
};

/// Steps whose reports, commits or grants travel together.
constexpr std::uint64_t at_once(std::uint64_t lease) {
  return lease < 4 ? 1 : lease / 4;
}

/// The step behind the last of a run; the last there is, if it has no end.
constexpr std::uint64_t end_of(std::uint64_t first, std::uint64_t steps) {
  return steps > ~first ? ~std::uint64_t{0} : first + steps;
}

class ledger {
public:
  /// @param lease how many steps replicas may be ahead of the last commit.
  ledger(std::uint32_t replicas, std::uint64_t lease, places where = {});

  /// Seats everyone for the first time.
  reaction open();

  /// @pre nothing runs.
  reaction run(std::uint64_t first, std::uint64_t steps);
  reaction stop();
  /// The caller is through with the commits of all steps before this one.
  reaction heard(std::uint64_t next);

  reaction on(const seated& x);
  reaction on(const report& x);
  reaction on(const failed& x);
  reaction on(const blame& x);

  /// @param why what its end was called.
  reaction on_lost(std::uint32_t replica, const std::string& why);
  /// All its replicas are. @param code lost or unreachable.
  reaction on_process_lost(std::uint32_t process, cause code,
                           const std::string& why);
  reaction on_reducer_lost(std::uint32_t reducer, const std::string& why);

  /// Ends what runs, for a reason that is not of its steps.
  reaction end_with(cause code, const std::string& why);

  /// Nothing moved (`moves` stayed the same) for the patience.
  /// @param waited for people, such as "200 ms".
  reaction on_late(const std::string& waited);

  /// Whether a peer that keeps the rules can have said this: its replica
  /// exists, and it misses no more replicas than there are. The ids of reducers
  /// are not known here.
  bool is_possible(const blame& x) const;

  /// Whether somebody is owed something, so that a guard has to run.
  bool busy() const {
    return now_ != phase::idle
           && !(now_ == phase::running && next_ == granted_);
  }
  /// Whether a guard need not wait for long any more: answers to a probe, or
  /// to a seat that was sent again.
  bool probing() const { return now_ == phase::probing || urged_; }
  std::uint64_t moves() const { return moves_; }
  std::uint64_t epoch() const { return epoch_; }
  /// The first step that is not committed.
  std::uint64_t next() const { return next_; }
  /// Who lives and has not reported it, or not even taken a seat.
  std::vector<std::uint32_t> behind() const;

private:
  enum class phase { idle, seating, running, probing, leaving };
  struct member {
    std::uint64_t seated = 0; ///< Epoch.
    std::uint32_t incarnation = 0;
    bool lost = false;
    bool answered = false;  ///< The probe, or it is lost.
    bool explained = false; ///< Its blame is kept, of the last probe.
  };

  template <class T>
  static void add(reaction& out, T x) {
    out.emplace_back(std::in_place_type<T>, std::move(x));
  }
  seat next_seat() const;
  void reseat(reaction& out);
  void begin(reaction& out);
  void settle(reaction& out);
  void fail(reaction& out, cause code, std::string why);
  void commit_next(reaction& out);
  void go_on(reaction& out);
  void probe_all(reaction& out, std::uint64_t step);
  std::uint64_t awaited_step() const;
  void tell_loss(reaction& out, const std::string& more = {});
  bool urge(reaction& out);
  bool all_seated() const;
  bool first_answer(const blame& x);
  bool all_answered() const;
  bool works() const {
    return now_ == phase::running || now_ == phase::probing;
  }
  bool known(std::uint32_t replica, std::uint32_t incarnation) const;
  bool reported(std::uint32_t replica, std::uint64_t step) const;
  std::vector<std::uint32_t> late_ones() const;
  std::string verdict(const std::string& waited) const;
  std::string waits() const;

  std::vector<member> members_;
  std::uint64_t lease_, at_once_; ///< Steps that are granted together.
  places where_;
  std::vector<std::uint32_t> lost_reducers_;
  std::optional<given_up> loss_; ///< Of a process; while it probes.
  std::string lost_one_;         ///< Its name.
  std::uint64_t probed_ = 0;     ///< The step that was asked about.
  bool urged_ = false;           ///< Seats were sent once more.
  phase now_ = phase::idle;
  std::uint64_t epoch_ = 0;
  bool fresh_ = true; ///< No step of this epoch was granted.
  std::uint64_t first_ = 0, next_ = 0, granted_ = 0, end_ = 0;
  std::uint64_t heard_ = 0; ///< The first step the caller is not through with.
  bool wanted_ = false;     ///< Work waits until all are seated.
  /// Of steps [next_, next_ + lease), by step % lease and replica.
  std::vector<std::vector<step_report>> reports_;
  std::vector<std::vector<bool>> reported_;
  std::vector<std::uint32_t> counts_;
  std::vector<blame> blames_;
  given_up verdict_;
  std::uint64_t moves_ = 0;
};

} // namespace troupe::commit
