#include "troupe/net/cluster/launcher_link.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <fcntl.h>
#include <mutex>
#include <string>
#include <string_view>
#include <sys/socket.h>

namespace troupe::net {

namespace {

/// What the launcher has said to this process, which has one launcher.
class launcher_messages {
public:
  /// Reads what has arrived. @returns true if it has sent `end`.
  bool read_end(int descriptor) noexcept {
    const std::lock_guard hold{lock_};
    read(descriptor);
    return has_end_;
  }
  /// Reads what has arrived. @returns the answer to a question, if it is the
  /// last one that was answered.
  std::optional<bool> read_answer(int descriptor,
                                  std::uint64_t question) noexcept {
    const std::lock_guard hold{lock_};
    read(descriptor);
    if (answered_ != question)
      return {};
    return answer_;
  }

private:
  void read(int descriptor) noexcept {
    std::array<char, 64> buffer;
    for (;;) {
      const auto n =
        ::recv(descriptor, buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        return;
      for (const char c : std::string_view{buffer.data(), std::size_t(n)})
        add(c);
    }
  }

  void add(char c) noexcept {
    if (c == '\n') {
      on_line({line_.data(), size_});
      size_ = 0;
    } else if (size_ < line_.size()) { // a longer line means nothing
      line_[size_++] = c;
    }
  }

  void on_line(std::string_view line) noexcept {
    has_end_ |= line == launcher_link::end_line;
    read_answer(line, launcher_link::survivors_line, true);
    read_answer(line, launcher_link::undecided_line, false);
  }

  void read_answer(std::string_view line, std::string_view start,
                   bool answer) noexcept {
    if (!line.starts_with(start))
      return;
    line.remove_prefix(start.size());
    std::uint64_t number = 0;
    const auto [end, error] =
      std::from_chars(line.data(), line.data() + line.size(), number);
    if (error != std::errc{} || end != line.data() + line.size())
      return;
    answered_ = number;
    answer_ = answer;
  }

  std::mutex lock_;
  std::array<char, 32> line_{};
  std::size_t size_ = 0; ///< Size of the incomplete line.
  bool has_end_ = false;
  std::uint64_t answered_ = 0; ///< Number of a question.
  bool answer_ = false;
};

launcher_messages& messages() {
  static launcher_messages all;
  return all;
}

/// A launcher that has ended or does not read has no effect.
/// @returns false if the line was not sent.
bool send_line(int descriptor, std::string line) noexcept {
  line += '\n';
  return ::send(descriptor, line.data(), line.size(),
                MSG_DONTWAIT | MSG_NOSIGNAL)
         == static_cast<ssize_t>(line.size());
}

} // namespace

std::optional<launcher_link> launcher_link::from_environment() {
  const auto* const text = std::getenv(variable);
  if (!text)
    return {};
  std::string_view digits{text};
  const bool is_witness = !digits.ends_with(no_witness);
  if (!is_witness)
    digits.remove_suffix(std::string_view{no_witness}.size());
  int number = -1;
  const auto [end, error] =
    std::from_chars(digits.data(), digits.data() + digits.size(), number);
  int type = 0;
  socklen_t size = sizeof type;
  if (error != std::errc{} || end != digits.data() + digits.size()
      || ::getsockopt(number, SOL_SOCKET, SO_TYPE, &type, &size) != 0
      || ::fcntl(number, F_SETFD, FD_CLOEXEC) != 0)
    return {};
  return launcher_link{number, is_witness};
}

void launcher_link::report_unreachable(std::uint64_t number) const noexcept {
  send_line(descriptor_, unreachable_line + std::to_string(number));
}

void launcher_link::report_begun() const noexcept {
  send_line(descriptor_, begun_line);
}

void launcher_link::report_left() const noexcept {
  send_line(descriptor_, left_line);
}

bool launcher_link::report_candidate(
  const process_identity& candidate) const noexcept {
  return send_line(descriptor_, candidate_line
                                  + std::to_string(candidate.number) + ' '
                                  + std::to_string(candidate.start_time));
}

std::uint64_t launcher_link::ask(const survivors_question& question) const {
  static std::atomic<std::uint64_t> last = 0;
  const auto number = ++last;
  send_line(descriptor_,
            survivors_line + std::to_string(number) + ' ' + to_words(question));
  return number;
}

std::optional<bool>
launcher_link::answer_to(std::uint64_t question) const noexcept {
  return messages().read_answer(descriptor_, question);
}

void launcher_link::withdraw() const noexcept {
  send_line(descriptor_, withdrawn_line);
}

bool launcher_link::is_job_ended() const noexcept {
  return messages().read_end(descriptor_);
}

} // namespace troupe::net
