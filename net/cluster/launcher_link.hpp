#pragma once

#include <cstdint>
#include <optional>

namespace troupe::net {

/// Connection of a process to the launcher that has started it as a process of
/// a job. It is a Unix socket that the process inherits. Messages are lines:
///
///   unreachable N  to the launcher: the process with this number (pid) does
///                  not answer. The launcher kills it, if it has started it,
///                  unless that process has reported this one before
///   begun          to the launcher: the job of this process has begun. From
///                  then on, a process that is started again joins it
///   left           to the launcher: this process has left the job, as it has
///                  asked, or by an error of its own, or because the others
///                  could not reach it. It ends. The job goes on
///   end            to the process: the whole job is to end. The launcher sends
///                  it before the signal that ends the process
///
/// The launcher knows whether the processes that it has started live, and can
/// end them, so it can be the witness that decides between processes that
/// cannot reach each other.
///
/// Cost: a write or a read of some bytes for each call. They do not block, and
/// have no effect if the launcher has ended.
class launcher_link {
public:
  /// Environment variable with the number of the inherited descriptor. If
  /// `no_witness` follows the number, the launcher is no witness: it ignores
  /// `unreachable`.
  static constexpr const char* variable = "TROUPE_LAUNCHER";
  static constexpr const char* no_witness = ":no-witness";

  /// Environment variable that is 1 in a process which the launcher has started
  /// in the place of one that the running job has lost: it joins the job.
  static constexpr const char* joiner_variable = "TROUPE_JOIN";

  /// Lines, each of which ends with a line break.
  static constexpr const char* unreachable_line = "unreachable ";
  static constexpr const char* begun_line = "begun";
  static constexpr const char* left_line = "left";
  static constexpr const char* end_line = "end";

  /// Returns the link of this process, whose own children do not inherit it.
  /// None: no launcher has started this process, or it has closed the link.
  static std::optional<launcher_link> from_environment();

  /// The launcher ends processes that are reported as unreachable.
  bool is_witness() const { return is_witness_; }

  /// Reports that a process of the job does not answer.
  /// @param number process number (pid).
  void report_unreachable(std::uint64_t number) const noexcept;

  /// Reports that the job has begun.
  void report_begun() const noexcept;

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
