#include "troupe/apps/troupe/base/signal_receiver.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <string>
#include <sys/signalfd.h>
#include <unistd.h>

signal_receiver::signal_receiver(std::initializer_list<int> numbers) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const auto number : numbers)
    if (number != SIGHUP || !ignores_hangup())
      sigaddset(&signals, number);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  descriptor_ = troupe::net::descriptor{
    ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK)};
  if (!descriptor_)
    throw std::runtime_error(std::string{"cannot listen for signals: "}
                             + std::strerror(errno));
}

int signal_receiver::take() const {
  signalfd_siginfo info{};
  return ::read(descriptor_.get(), &info, sizeof info) == sizeof info
           ? static_cast<int>(info.ssi_signo)
           : 0;
}

bool ignores_hangup() {
  struct sigaction now {};
  return ::sigaction(SIGHUP, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

bool received_signals::repeats(int signal_number) {
  return !numbers_.insert(signal_number).second && signal_number != SIGHUP;
}
