#include "troupe/net/cluster/launcher_link.hpp"

#include <array>
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
  bool read(int descriptor) noexcept {
    const std::lock_guard hold{lock_};
    std::array<char, 64> buffer;
    while (!has_end_) {
      const auto n =
        ::recv(descriptor, buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        break;
      for (const char c : std::string_view{buffer.data(), std::size_t(n)})
        add(c);
    }
    return has_end_;
  }

private:
  void add(char c) noexcept {
    if (c == '\n') {
      has_end_ |=
        std::string_view{line_.data(), size_} == launcher_link::end_line;
      size_ = 0;
    } else if (size_ < line_.size()) { // a longer line means nothing
      line_[size_++] = c;
    }
  }

  std::mutex lock_;
  std::array<char, 16> line_{};
  std::size_t size_ = 0; ///< Of the incomplete line.
  bool has_end_ = false;
};

launcher_messages& messages() {
  static launcher_messages all;
  return all;
}

/// A launcher that has ended or does not read has no effect.
void send_line(int descriptor, std::string line) noexcept {
  line += '\n';
  [[maybe_unused]] const auto sent =
    ::send(descriptor, line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
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

bool launcher_link::is_job_ended() const noexcept {
  return messages().read(descriptor_);
}

} // namespace troupe::net
