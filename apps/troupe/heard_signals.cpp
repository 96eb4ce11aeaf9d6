#include "heard_signals.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <string>
#include <sys/signalfd.h>
#include <unistd.h>

heard_signals::heard_signals(std::initializer_list<int> numbers) {
  sigset_t which;
  sigemptyset(&which);
  for (const auto number : numbers)
    sigaddset(&which, number);
  ::sigprocmask(SIG_BLOCK, &which, nullptr);
  from_ =
    troupe::net::descriptor{::signalfd(-1, &which, SFD_CLOEXEC | SFD_NONBLOCK)};
  if (!from_)
    throw std::runtime_error(std::string{"cannot listen for signals: "}
                             + std::strerror(errno));
}

int heard_signals::take() const {
  signalfd_siginfo news{};
  return ::read(from_.get(), &news, sizeof news) == sizeof news
           ? static_cast<int>(news.ssi_signo)
           : 0;
}
