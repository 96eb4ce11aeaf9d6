#include "troupe/apps/troupe/base/command.hpp"
#include "troupe/apps/troupe/base/exit_code.hpp"
#include "troupe/tensors/device_backend.hpp"

#include <algorithm>
#include <iostream>
#include <string>
#include <thread>

namespace {

using troupe::device;
using troupe::device_kind;

int list() {
  const auto processors = std::max(1u, std::thread::hardware_concurrency());
  for (std::uint32_t i = 0; i < processors; ++i)
    std::cout << to_string(device{device_kind::cpu, i}) << "  processor "
              << i + 1 << " of " << processors << '\n';
  auto* const cuda = troupe::find_device_backend(device_kind::cuda);
  const auto count = cuda ? cuda->count() : 0;
  for (std::uint32_t i = 0; i < count; ++i)
    std::cout << to_string(device{device_kind::cuda, i}) << "  "
              << cuda->describe(i) << '\n';
  if (const auto why = troupe::why_no_cuda_device(); !why.empty())
    std::cerr << "no CUDA devices: " << why << '\n';
  return ok;
}

} // namespace

void add_devices(CLI::App& tool, action& selected) {
  auto& command = *tool.add_subcommand(
    "devices", "List the devices of this machine, for --devices");
  command.footer("Examples:\n"
                 "  troupe devices\n"
                 "  troupe train --devices cpu:0,cpu:1    trains on two of "
                 "them\n");
  command.callback([&selected] { selected = list; });
}
