#pragma once

#include "troupe/net/cluster/survivors_question.hpp"
#include "troupe/net/io/process_handle.hpp"

#include <chrono>
#include <cstdint>
#include <optional>

namespace troupe::net {

/// Connection of a process to the launcher that has started it as a process of
/// a job. It is a Unix socket that the process inherits. Messages are lines:
///
///   unreachable N  to the launcher: the process with this number (pid) does
///                  not answer. The launcher kills it, if it has started it,
///                  unless that process has reported this one before
///   begun          to the launcher: this process belongs to a job that has
///                  begun. From then on, a process that is started again joins
///                  it
///   candidate N T  to the launcher: the process with this number and start
///                  time (0 0: it is on another host) has asked this one to
///                  join the job, and can be reached. It may belong to the job
///                  from then on
///   survivors Q W  to the launcher: a question with a number and words
///                  (survivors_question.hpp). The launcher ends processes as
///                  `rule_on` says. To the process, without words: it is
///                  certain
///   undecided Q    to the process: the question cannot be decided, because the
///                  launcher has not started all processes that may belong to
///                  the job, or more live than the question names
///   withdrawn      to the launcher: this process asks no more
///   left           to the launcher: this process has left the job, as it has
///                  asked, or by an error of its own, or because the others
///                  could not reach it. It ends. The job goes on
///   end            to the process: the whole job is to end. The launcher sends
///                  it before the signal that ends the process
///
/// A question has one of three outcomes for the process that has asked it:
///
///   going on       the answer is `survivors`: the next view has the processes
///                  that live
///   waiting        the answer is `undecided`, or there is none within 15 s.
///                  But a process that did not answer is connected again, so
///                  this one waits for a majority. If the others do not answer
///                  again, it asks another question
///   giving up      the same, and none of those that did not answer is
///                  connected: this process takes part in no later view, sends
///                  `left`, and its calls throw. From then on a question of
///                  another process does not need its answer
///
/// The launcher knows whether the processes that it has started live, and can
/// end them. So it is the witness that decides between processes that cannot
/// reach each other.
///
/// Cost: a write or a read of some bytes for each call. They do not block, and
/// have no effect if the launcher has ended.
class launcher_link {
public:
  /// Environment variable with the number of the inherited descriptor. If
  /// `no_witness` follows the number, the launcher is no witness: it ignores
  /// `unreachable` and questions.
  static constexpr const char* variable = "TROUPE_LAUNCHER";
  static constexpr const char* no_witness = ":no-witness";

  /// Environment variable that is 1 in a process which the launcher has started
  /// in the place of a lost one. Such a process joins the running job.
  static constexpr const char* joiner_variable = "TROUPE_JOIN";

  /// Lines, each of which ends with a line break.
  static constexpr const char* unreachable_line = "unreachable ";
  static constexpr const char* begun_line = "begun";
  static constexpr const char* candidate_line = "candidate ";
  static constexpr const char* survivors_line = "survivors ";
  static constexpr const char* undecided_line = "undecided ";
  static constexpr const char* withdrawn_line = "withdrawn";
  static constexpr const char* left_line = "left";
  static constexpr const char* end_line = "end";

  /// Returns the link of this process, whose own children do not inherit it.
  /// None: no launcher has started this process, or it has closed the link.
  static std::optional<launcher_link> from_environment();

  /// Time for which the launcher considers a question, after it was asked and
  /// after the launcher has ended a process for it.
  static constexpr std::chrono::milliseconds question_timeout{3000};

  /// The launcher ends processes that are reported as unreachable, and answers
  /// questions.
  bool is_witness() const { return is_witness_; }

  /// Reports that a process of the job does not answer.
  /// @param number process number (pid).
  void report_unreachable(std::uint64_t number) const noexcept;

  /// Reports that this process belongs to a job that has begun.
  void report_begun() const noexcept;

  /// Reports a process that asks to join. Call it before that process can join.
  /// @param candidate without a number: it is on another host.
  /// @returns false if the report cannot be sent, so it must not join.
  bool report_candidate(const process_identity& candidate) const noexcept;

  /// Asks which processes of the job live.
  /// @returns the number of the question, which this process uses once.
  std::uint64_t ask(const survivors_question& question) const;

  /// The answer to a question, if it was the last one that was answered. Any
  /// thread may call it.
  std::optional<bool> answer_to(std::uint64_t question) const noexcept;

  /// Withdraws the last question.
  void withdraw() const noexcept;

  /// Reports that this process has left the job.
  void report_left() const noexcept;

  /// True if the launcher has said that the job is to end. Any thread may call
  /// it.
  bool is_job_ended() const noexcept;

private:
  launcher_link(int descriptor, bool is_witness)
    : descriptor_{descriptor}, is_witness_{is_witness} {}

  int descriptor_; ///< Open as long as the process runs.
  bool is_witness_;
};

} // namespace troupe::net
