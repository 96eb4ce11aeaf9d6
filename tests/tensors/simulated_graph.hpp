#pragma once

#include "troupe/tensors/base/device_error.hpp"
#include "troupe/tensors/detail/captured_operands.hpp"
#include "troupe/tensors/device_backend.hpp"
#include "troupe/tensors/flush_denormals.hpp"
#include "troupe/tensors/op.hpp"
#include "troupe/tensors/ops/dropout.hpp"
#include "troupe/tensors/tensor.hpp"

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

// Graphs of simulated devices. Captured work is a list of functions, which a
// launch calls. It has addresses and no tensors, so it keeps no memory but that
// of `captured_operands`.

namespace troupe::test {

/// The capture by a thread, and the graph that it becomes.
struct simulated_capture {
  using work = std::function<void(std::uint64_t step)>;

  device on;
  std::uint64_t graph = 0; ///< Owns the memory that the thread allocates.
  std::vector<work> list{};
  std::uint32_t random_ops = 0;

  /// The capture by the calling thread. Null: none.
  static inline thread_local simulated_capture* of_thread = nullptr;

  static simulated_capture* find(const device& on) {
    return of_thread && of_thread->on == on ? of_thread : nullptr;
  }

  /// @errors throws device_error if the calling thread captures.
  static void refuse(const std::string& call) {
    if (of_thread)
      throw device_error{call + " cannot be in a graph of "
                         + to_string(of_thread->on)
                         + ": it needs the host in each step"};
  }
};

/// A tensor of captured work. Empty: the call has none.
struct captured_tensor {
  tensor_spec spec{};
  std::function<std::byte*()> find{}; ///< Returns where the host has it.

  tensor read() const {
    if (!find)
      return {};
    tensor out{spec};
    if (out.bytes() > 0)
      std::memcpy(out.raw(), find(), out.bytes());
    return out;
  }
  void write(const tensor& x) const {
    if (find && x.bytes() > 0)
      std::memcpy(find(), x.raw(), x.bytes());
  }
  /// Returns a tensor of zeros, to find out what a kernel returns.
  tensor example() const {
    return find ? tensor::zeros(spec.dims, spec.type) : tensor{};
  }
};

using captured_tensors = std::vector<captured_tensor>;

template <class List>
List read_all(const captured_tensors& list) {
  List out;
  for (const auto& x : list)
    out.push_back(x.read());
  return out;
}

/// A call of a kernel, which runs on copies of its tensors.
struct captured_call {
  const op* definition = nullptr;
  dtype type = dtype::float32;
  op_options options;
  captured_tensors in, out, saved, grad_out, grad_in;
  small_list<bool, 4> accumulate;
  bool is_forward = true;

  /// The op draws the numbers of the step of a launch.
  bool is_random() const { return is_forward && definition == &ops::dropout; }

  /// @param call_kernel calls the kernel of the CPU.
  void run(std::uint64_t step,
           const std::function<void(op_call&)>& call_kernel) const {
    op_call host;
    host.definition = definition;
    host.type = type;
    host.options = options;
    if (is_random()) {
      auto of_step = options.as<ops::dropped>();
      of_step.key.step = step;
      host.options = of_step;
    }
    const auto inputs = read_all<small_list<tensor, 3>>(in);
    auto gradients = read_all<small_list<tensor, 4>>(grad_in);
    host.in = {inputs.data(), inputs.size()};
    host.grad_in = {gradients.data(), gradients.size()};
    host.accumulate = {accumulate.data(), accumulate.size()};
    host.out = read_all<small_list<tensor, 1>>(out);
    host.grad_out = read_all<small_list<tensor, 1>>(grad_out);
    if (!is_forward)
      host.saved = read_all<small_list<tensor, 1>>(saved);
    call_kernel(host);
    for (std::size_t i = 0; i < gradients.size(); ++i)
      grad_in[i].write(gradients[i]);
    for (std::size_t i = 0; i < out.size(); ++i)
      if (host.out[i])
        out[i].write(host.out[i]);
    if (is_forward)
      for (std::size_t i = 0; i < saved.size(); ++i)
        saved[i].write(host.saved[i]);
  }

  /// Returns what the forward kernel saves, by a call with zeros.
  std::vector<tensor_spec> specs_of_saved(op_kernel kernel) const {
    op_call host;
    host.definition = definition;
    host.type = type;
    host.options = options;
    small_list<tensor, 3> inputs;
    for (const auto& x : in)
      inputs.push_back(x.example());
    host.in = {inputs.data(), inputs.size()};
    for (const auto& x : out)
      host.out.push_back(x.example());
    kernel(host);
    std::vector<tensor_spec> specs;
    for (const auto& x : host.saved)
      specs.push_back(x.spec());
    return specs;
  }
};

/// A graph of simulated devices.
class simulated_graph final : public device_backend::graph {
public:
  /// @param on_launch called before each launch.
  /// @param on_end    releases the memory.
  simulated_graph(std::vector<simulated_capture::work> list,
                  std::unique_ptr<captured_operands> operands,
                  std::function<void()> on_launch, std::function<void()> on_end)
    : list_{std::move(list)},
      operands_{std::move(operands)},
      on_launch_{std::move(on_launch)},
      on_end_{std::move(on_end)} {}
  ~simulated_graph() override { on_end_(); }

  void launch(std::uint64_t step) override {
    simulated_capture::refuse("a launch");
    on_launch_();
    const flush_denormals flushing;
    for (const auto& work : list_)
      work(step);
  }

private:
  const std::vector<simulated_capture::work> list_;
  const std::unique_ptr<captured_operands> operands_;
  const std::function<void()> on_launch_, on_end_;
};

/// A capture of simulated devices.
class simulated_capturing final : public device_backend::capture {
public:
  simulated_capturing(const device& on, std::uint64_t graph,
                      std::function<void()> on_launch,
                      std::function<void()> on_end)
    : state_{on, graph},
      on_launch_{std::move(on_launch)},
      on_end_{std::move(on_end)} {
    if (simulated_capture::of_thread)
      throw std::logic_error("a thread captures two graphs");
    simulated_capture::of_thread = &state_;
    operands_ = std::make_unique<captured_operands>(on);
  }
  ~simulated_capturing() override {
    if (is_ended_)
      return;
    simulated_capture::of_thread = nullptr;
    on_end_();
  }

  std::uint32_t random_ops() const override { return state_.random_ops; }
  std::unique_ptr<device_backend::graph> end() override {
    is_ended_ = true;
    simulated_capture::of_thread = nullptr;
    operands_->end();
    return std::make_unique<simulated_graph>(
      std::move(state_.list), std::move(operands_), on_launch_, on_end_);
  }

private:
  simulated_capture state_;
  std::unique_ptr<captured_operands> operands_;
  const std::function<void()> on_launch_, on_end_;
  bool is_ended_ = false;
};

} // namespace troupe::test
