// Entry point for libFuzzer. `<target> --seeds FOLDER` writes the seeds to a
// folder and exits.
#include "troupe/tests/fuzz/fuzz.hpp"

#include <filesystem>
#include <fstream>
#include <string>

namespace {

void write_seeds(const std::filesystem::path& into) {
  std::filesystem::create_directories(into);
  std::size_t number = 0;
  for (const auto& seed : troupe::fuzz::seeds()) {
    std::ofstream file{into / ("seed-" + std::to_string(number++)),
                       std::ios::binary};
    file.write(reinterpret_cast<const char*>(seed.data()),
               static_cast<std::streamsize>(seed.size()));
  }
}

} // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** values) {
  if (*count == 3 && std::string_view{(*values)[1]} == "--seeds") {
    write_seeds((*values)[2]);
    std::exit(0);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  troupe::fuzz::try_one(std::as_bytes(std::span{data, size}));
  return 0;
}
