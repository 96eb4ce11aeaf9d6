#pragma once

#include "troupe/strategies/step_commit/state_machine.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

/// Every process calls `run` with the same steps; the work begins when all
/// have. This is the chief's side of that.
///
///   who      a chief, P processes, each with a caller of `run`
///   says     a caller: join, with the number of his run and its steps; stop,
///            with the number of the run that is to end early
///            the chief: begin (to itself), or why not, to whoever has joined
///   opens    with the first who joins a run that was not decided yet
///   on join  by all, with equal words: begin
///   on late  whoever joined hears who did not
///   on lost  likewise; and so does everybody who joins later
///   on stop  of the run under way: end it. Of a run that is yet to begin: kept
///            until it begins, and `begin` says so. Of any other: void
///   ends     when the work has ended (`over`); its number is not used again
///   costs    P messages a run
///   if       others steps, or another run   -> refused, naming both
///            a run that was refused already -> refused for the same reason
///            said twice                     -> ignored
namespace troupe::muster {

using troupe::inspect, troupe::serialize;

struct join {
  std::uint32_t process = 0;
  std::uint64_t run = 0; ///< Each process counts its own, from 1.
  std::uint64_t first = 0;
  std::uint64_t steps = 0;
  /// Milliseconds that a caller waits for the other processes if it is the
  /// first to join; at least the chief's patience, and at most a year.
  std::uint64_t timeout = 0;
  auto fields() { return std::tie(process, run, first, steps, timeout); }
};

/// A caller wants its run to end as soon as it can, in all processes.
struct stop {
  std::uint32_t process = 0;
  std::uint64_t run = 0; ///< As in `join`: another run is not stopped.
  auto fields() { return std::tie(process, run); }
};

/// All have joined.
struct begin {
  join what;            ///< `process` is the last who came.
  bool stopped = false; ///< A process stopped the run before it began.
};
/// The run under way grants no more steps.
struct halt {};
/// The run does not begin, as this process is to hear.
struct refuse {
  std::uint32_t whom = 0;
  std::uint64_t run = 0;
  commit::cause code = commit::cause::stalled;
  std::string why;
};
/// Somebody asks for another run while one is under way: that cannot end.
struct abandon {
  std::string why;
};
using effect = std::variant<begin, refuse, abandon, halt>;
using reaction = std::vector<effect>;

class machine {
public:
  /// @param names of the processes: "chief 0", "worker 1".
  explicit machine(std::vector<std::string> names);

  reaction on(const join& x);
  reaction on(const stop& x);

  /// Nobody came for the patience. @param waited for people: "200 ms".
  reaction on_late(const std::string& waited);

  /// @param code lost or unreachable.
  reaction on_lost(std::uint32_t process, commit::cause code,
                   const std::string& why);

  /// The run under way has ended.
  void over() { under_way_ = 0; }

  /// Whether somebody waits for others, and for which run.
  std::optional<std::uint64_t> waiting() const;
  /// Who is waited for; nobody if nobody waits.
  std::vector<std::string> absent() const;

private:
  struct end {
    std::uint64_t run = 0;
    commit::cause code = commit::cause::stalled;
    std::string why;
  };
  reaction refuse_all(commit::cause code, std::string why);
  reaction refuse_one(const join& x);
  std::string described(const join& x) const;

  std::vector<std::string> names_;
  std::vector<std::optional<join>> joined_; ///< By process; of `now_`.
  std::vector<std::uint64_t> asked_;        ///< Each process's last run.
  std::vector<std::uint64_t> stopped_;      ///< The last run that each stopped.
  std::uint64_t now_ = 0;                   ///< The run that is gathered.
  std::uint64_t decided_ = 0;   ///< Runs up to this one began or were refused.
  std::uint64_t under_way_ = 0; ///< Which run is; 0: none.
  end last_;                    ///< Why the last refused one was.
  std::optional<end> lost_;     ///< Somebody is, so nothing can begin.
};

} // namespace troupe::muster
