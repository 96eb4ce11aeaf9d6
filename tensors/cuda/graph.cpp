#include "troupe/tensors/cuda/graph.hpp"

#include "troupe/tensors/cuda/convert.hpp"
#include "troupe/tensors/cuda/memory_cache.hpp"
#include "troupe/tensors/cuda/runtime.hpp"
#include "troupe/tensors/detail/captured_operands.hpp"
#include "troupe/tensors/tensor.hpp"

#include <map>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

namespace troupe::cuda {

namespace {

/// A handle that a function of CUDA destroys.
template <class T, auto destroy>
struct handle_deleter {
  void operator()(T handle) const { destroy(handle); }
};
template <class T, auto destroy>
using owned =
  std::unique_ptr<std::remove_pointer_t<T>, handle_deleter<T, destroy>>;

using owned_graph = owned<cudaGraph_t, cudaGraphDestroy>;
using owned_executable = owned<cudaGraphExec_t, cudaGraphExecDestroy>;

/// Streams for captures. They are used again and never destroyed, because the
/// handle of cuDNN keeps the last stream that it got.
class capture_streams {
public:
  cudaStream_t take(const device& on) {
    compute_stream(on); // selects the device
    const std::lock_guard hold{lock_};
    auto& [idle, count] = of_[on.index];
    if (!idle.empty()) {
      const auto last = idle.back();
      idle.pop_back();
      return last;
    }
    idle.reserve(count + 1); // so that put_back allocates nothing
    cudaStream_t made = nullptr;
    check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking),
          "cudaStreamCreateWithFlags");
    ++count;
    return made;
  }

  void put_back(const device& on, cudaStream_t stream) noexcept {
    const std::lock_guard hold{lock_};
    of_[on.index].idle.push_back(stream);
  }

private:
  struct device_streams {
    std::vector<cudaStream_t> idle;
    std::size_t count = 0; ///< Number of streams that were made.
  };
  std::mutex lock_;
  std::map<std::uint32_t, device_streams> of_; ///< By device.
};

capture_streams& streams() {
  static auto* const all = new capture_streams;
  return *all;
}

struct stream_return {
  device on{};
  void operator()(cudaStream_t stream) const noexcept {
    streams().put_back(on, stream);
  }
};

/// A stream for one capture. If the capture fails, `release` drops it, since it
/// may capture still.
using pooled_stream =
  std::unique_ptr<std::remove_pointer_t<cudaStream_t>, stream_return>;

/// The memory of a graph.
class graph_memory {
public:
  graph_memory(const device& on, memory_cache& cache)
    : step{{{1}, dtype::int64}, on}, cache_{cache}, graph_{cache.add_graph()} {}
  ~graph_memory() { cache_.remove_graph(graph_); }
  graph_memory(const graph_memory&) = delete;
  graph_memory& operator=(const graph_memory&) = delete;

  std::uint64_t graph() const { return graph_; }

  const tensor step; ///< int64 [1]: of the launch. For random ops.

private:
  memory_cache& cache_;
  const std::uint64_t graph_;
};

class executable_graph final : public device_backend::graph {
public:
  executable_graph(std::unique_ptr<graph_memory> memory,
                   std::unique_ptr<captured_operands> operands,
                   owned_executable executable, bool is_random)
    : memory_{std::move(memory)},
      operands_{std::move(operands)},
      executable_{std::move(executable)},
      is_random_{is_random} {}

  void launch(std::uint64_t step) override {
    const auto stream = compute_stream(memory_->step.device());
    if (is_random_)
      check(fill(memory_->step.address(), dtype::int64,
                 static_cast<double>(step), 1, stream),
            "the kernel of fill");
    check(cudaGraphLaunch(executable_.get(), stream), "cudaGraphLaunch");
  }

private:
  // Work that was launched may use the memory when the graph is destroyed. What
  // uses the memory later comes after this work, in the stream `compute`.
  const std::unique_ptr<graph_memory> memory_;
  const std::unique_ptr<captured_operands> operands_;
  const owned_executable executable_;
  const bool is_random_; ///< Ops read the step.
};

class stream_capture final : public device_backend::capture {
public:
  stream_capture(const device& on, memory_cache& cache)
    : memory_{std::make_unique<graph_memory>(on, cache)},
      stream_{streams().take(on), stream_return{on}} {
    state_ = {.on = on,
              .stream = stream_.get(),
              .graph = memory_->graph(),
              .step =
                reinterpret_cast<const std::int64_t*>(memory_->step.address())};
    set_capture(&state_);
    // In this mode a call that a graph cannot have, such as cudaMalloc, fails
    // if this thread makes it. Other threads are not restricted.
    if (const auto result = cudaStreamBeginCapture(
          stream_.get(), cudaStreamCaptureModeThreadLocal);
        result != cudaSuccess) {
      set_capture(nullptr);
      stream_.release();
      check(result, "cudaStreamBeginCapture");
    }
    is_active_ = true;
    operands_ = std::make_unique<captured_operands>(on);
  }

  ~stream_capture() override {
    if (!is_active_)
      return;
    if (auto* const given_up = end_capture().second)
      cudaGraphDestroy(given_up);
    cudaGetLastError(); // forgets why a call was not captured
  }

  std::uint32_t random_ops() const override { return state_.random_ops; }

  std::unique_ptr<device_backend::graph> end() override {
    const auto [result, graph] = end_capture();
    const owned_graph captured{graph};
    check(result, "cudaStreamEndCapture");
    cudaGraphExec_t executable = nullptr;
    check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
    owned_executable made{executable};
    // So that the first launch takes as long as all others.
    check(cudaGraphUpload(executable, compute_stream(state_.on)),
          "cudaGraphUpload");
    return std::make_unique<executable_graph>(
      std::move(memory_), std::move(operands_), std::move(made),
      state_.random_ops > 0);
  }

private:
  std::pair<cudaError_t, cudaGraph_t> end_capture() {
    is_active_ = false;
    set_capture(nullptr);
    operands_->end();
    cudaGraph_t graph = nullptr;
    const auto result = cudaStreamEndCapture(stream_.get(), &graph);
    if (result != cudaSuccess)
      stream_.release();
    return {result, graph};
  }

  std::unique_ptr<graph_memory> memory_;
  pooled_stream stream_;
  thread_capture state_;
  std::unique_ptr<captured_operands> operands_;
  bool is_active_ = false;
};

} // namespace

std::unique_ptr<device_backend::capture> begin_capture(const device& on,
                                                       memory_cache& memory) {
  return std::make_unique<stream_capture>(on, memory);
}

} // namespace troupe::cuda
