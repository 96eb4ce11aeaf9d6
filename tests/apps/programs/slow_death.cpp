// A process that dies slowly:
//
//   slow_death FROM TO
//
// Its main thread ends at once. Then it reads the process id of another process
// from the FIFO `FROM`, and writes a line to the FIFO `TO`. It is killed when
// that process has been waited for, or 300 ms later. Until then the system does
// not report its end.

#include "troupe/tests/support/becomes_true.hpp"

#include <chrono>
#include <csignal>
#include <fstream>
#include <pthread.h>
#include <string>
#include <thread>
#include <unistd.h>

namespace {

using namespace std::chrono_literals;

bool main_thread_has_ended() {
  std::ifstream input{"/proc/self/stat"};
  std::string text;
  std::getline(input, text);
  return text.find(") Z ") != text.npos;
}

} // namespace

int main(int, char** arguments) {
  const std::string from = arguments[1], to = arguments[2];
  std::thread{[=] {
    troupe::test::becomes_true(main_thread_has_ended);
    pid_t other = 0;
    std::ifstream{from} >> other;
    std::ofstream{to} << "dying" << std::endl;
    troupe::test::becomes_true([=] { return ::kill(other, 0) != 0; }, 300ms);
    std::raise(SIGKILL);
  }}.detach();
  ::pthread_exit(nullptr);
}
