#include "troupe/apps/troupe/base/exit_code.hpp"

#include "troupe/net/base/text.hpp"

#include <iostream>

int report_error(int code, const std::string& sentence) {
  std::cerr << "troupe: "
            << troupe::net::printable(sentence, troupe::net::max_sentence_bytes)
            << '\n';
  return code;
}
