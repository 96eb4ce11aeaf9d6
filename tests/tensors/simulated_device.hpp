#pragma once

#include "troupe/tensors/base/kernels.hpp"
#include "troupe/tensors/device_backend.hpp"
#include "troupe/tensors/flush_denormals.hpp"
#include "troupe/tensors/op.hpp"
#include "troupe/tensors/optim/update_rules.hpp"
#include "troupe/tensors/sparse_rows.hpp"
#include "troupe/tensors/tensor.hpp"
#include "troupe/tests/tensors/simulated_graph.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <exception>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <type_traits>
#include <unistd.h>
#include <utility>
#include <vector>

// Devices, two by default, whose memory the host cannot read. Each block is
// mapped twice. The address of a tensor is protected, so code that reads it on
// the host crashes. Copies use the other address. Kernels run those of the CPU
// on copies of their tensors, so all results have the bits of the CPU.
//
// A copy of `start_copy` takes place as late as the events allow, and its
// target has other elements until then. So code that reads the target too
// early, or changes the source too early, computes other bits.
//
// If a kernel of the CPU refuses a value in a tensor, the results of the op are
// NaN. The next wait for a device throws the error.
//
// A device can be lost: from a call on, all of its calls throw.
//
// Work that a thread captures is done by the launches of its graph only. A
// launch throws if it uses memory that was released since the capture.

namespace troupe::test {

/// The simulated device.
inline constexpr device gpu{device_kind::cuda, 0};

class simulated_devices final : public device_backend {
public:
  static constexpr std::uint32_t devices = 2, max_devices = 4;

  /// @param count of devices. 0: as on a machine without any, also on one that
  ///        has some.
  explicit simulated_devices(std::uint32_t count = devices) : count_{count} {
    set_device_backend(device_kind::cuda, this);
  }
  ~simulated_devices() override {
    set_device_backend(device_kind::cuda, nullptr);
    EXPECT_TRUE(delayed_.empty()) << "no work waits for a copy";
    EXPECT_TRUE(blocks_.empty()) << "a tensor has outlived its device";
    EXPECT_TRUE(pinned_.empty());
  }

  std::uint32_t count() const override { return count_; }
  std::string describe(std::uint32_t index) override {
    return "simulated device " + std::to_string(index);
  }

  // -- loss of a device -------------------------------------------------------

  void check_usable(const device& on) override {
    const std::lock_guard hold{lock_};
    throw_if_lost(on);
  }

  /// The device does this number of further calls. Then it is lost: the next
  /// call and all later ones throw.
  void lose(const device& on, std::uint64_t calls) {
    const std::lock_guard hold{lock_};
    losses_[on.index].calls_left = calls;
    if (calls == 0)
      end_work(on);
  }
  bool is_lost(const device& on) {
    const std::lock_guard hold{lock_};
    return losses_[on.index].is_lost;
  }
  /// Number of calls of a device so far.
  std::uint64_t calls_of(const device& on) {
    const std::lock_guard hold{lock_};
    return losses_[on.index].calls;
  }

  // -- memory -----------------------------------------------------------------

  std::byte* allocate(const device& on, std::size_t bytes) override {
    EXPECT_GT(bytes, 0u);
    begin_call(on);
    const auto* const capture = simulated_capture::find(on);
    const std::lock_guard hold{lock_};
    if (capture)
      for (auto& [address, x] : blocks_)
        if (x.graph == capture->graph && !x.is_used && x.bytes == bytes) {
          x.is_used = true;
          return address;
        }
    auto& usage = used_.at(on.index);
    if (usage.live + bytes > limit)
      throw device_error(to_string(on) + " has " + std::to_string(limit)
                         + " bytes, of which "
                         + std::to_string(limit - usage.live)
                         + " are free; asked for " + std::to_string(bytes));
    const auto size = size_of_mapping(bytes);
    const int file = ::memfd_create("device", 0);
    EXPECT_EQ(::ftruncate(file, static_cast<off_t>(size)), 0);
    const auto map = [&](int access) {
      return static_cast<std::byte*>(
        ::mmap(nullptr, size, access, MAP_SHARED, file, 0));
    };
    auto* const address = map(PROT_NONE);
    auto& made = blocks_[address];
    made = {map(PROT_READ | PROT_WRITE), bytes, on, ++calls_};
    if (capture) {
      made.graph = capture->graph;
      std::memset(made.readable, 0xff, bytes);
    }
    ::close(file);
    usage.live += bytes;
    usage.peak = std::max(usage.peak, usage.live);
    return address;
  }

  void release(const device& on, std::byte* block,
               std::size_t bytes) noexcept override {
    const std::lock_guard hold{lock_};
    expect_unused(block);
    const auto at = blocks_.find(block);
    EXPECT_NE(at, blocks_.end());
    EXPECT_EQ(at->second.on, on);
    EXPECT_EQ(at->second.bytes, bytes);
    at->second.is_used = false;
    if (at->second.graph == 0)
      unmap(at);
  }

  memory::usage used(const device& on) override {
    const std::lock_guard hold{lock_};
    return used_.at(on.index);
  }

  std::byte* allocate_pinned(std::size_t bytes) override {
    EXPECT_GT(bytes, 0u);
    if (bytes > limit)
      throw std::bad_alloc{};
    auto* const block = static_cast<std::byte*>(memory::allocate(bytes));
    const std::lock_guard hold{lock_};
    pinned_.insert(block);
    return block;
  }
  void release_pinned(std::byte* block, std::size_t bytes) noexcept override {
    {
      const std::lock_guard hold{lock_};
      expect_unused(block);
      EXPECT_EQ(pinned_.erase(block), 1u);
    }
    memory::release(block, bytes);
  }

  // -- copies -----------------------------------------------------------------

  void copy(const device& to, std::byte* target, const device& from,
            const std::byte* source, std::size_t bytes) override {
    begin_call(to);
    begin_call(from);
    ++copies;
    if (to.kind == device_kind::cpu || from.kind == device_kind::cpu)
      simulated_capture::refuse("a copy between the CPU and a device");
    if (to.kind == device_kind::cpu) {
      if (!simulated_work::is_under_way())
        ++copies_to_host;
      refuse_invalid_value();
    }
    give_work(to, [into = place_of(to, target), out_of = place_of(from, source),
                   bytes](std::uint64_t) {
      EXPECT_TRUE(into() + bytes <= out_of() || out_of() + bytes <= into())
        << "overlap";
      std::memcpy(into(), out_of(), bytes);
    });
  }
  void start_copy(const device& to, std::byte* target, const device& from,
                  const std::byte* source, std::size_t bytes,
                  stream in) override {
    begin_call(to);
    begin_call(from);
    simulated_capture::refuse("a copy between the CPU and a device");
    const bool to_host = to.kind == device_kind::cpu;
    auto* const into = on_host(to, target);
    const auto* const out_of = on_host(from, source);
    const std::lock_guard hold{lock_};
    auto& one = delayed_.emplace_back();
    one = {.on = to_host ? from : to,
           .number = ++calls_,
           .in = in,
           .bytes = bytes,
           .into = into,
           .out_of = out_of,
           .host = to_host ? target : source,
           .block = to_host ? source : target};
    if (in == stream::compute) { // done before the next work
      one.elements.assign(out_of, out_of + bytes);
      one.out_of = nullptr;
    } else {
      ++copies_ahead;
      const auto block = std::prev(
        blocks_.upper_bound(const_cast<std::byte*>(to_host ? source : target)));
      EXPECT_LE(block->second.allocated, copies_follow_)
        << "the copy does not wait for work that may use the block";
    }
    std::memset(into, 0xff, bytes);
  }
  std::unique_ptr<device_backend::event> make_event(const device& on) override {
    begin_call(on);
    return std::make_unique<event>(*this, on);
  }
  void convert(const device& on, std::byte* target, dtype to,
               const std::byte* source, dtype from,
               std::size_t count) override {
    EXPECT_GT(count, 0u);
    begin_call(on);
    give_work(on, [=, into = place_of(on, target),
                   out_of = place_of(on, source)](std::uint64_t) {
      tensor values{{{std::int64_t(count)}, from}};
      std::memcpy(values.raw(), out_of(), values.bytes());
      const auto converted = values.as(to);
      std::memcpy(into(), converted.raw(), converted.bytes());
    });
  }
  void fill(const device& on, std::byte* target, dtype type, double value,
            std::size_t count) override {
    EXPECT_GT(count, 0u);
    begin_call(on);
    give_work(on, [=, into = place_of(on, target)](std::uint64_t) {
      const auto values = tensor::full({std::int64_t(count)}, value, type);
      std::memcpy(into(), values.raw(), values.bytes());
    });
  }
  void set_zero(const device& on, std::byte* target,
                std::size_t bytes) override {
    begin_call(on);
    give_work(on, [bytes, into = place_of(on, target)](std::uint64_t) {
      std::memset(into(), 0, bytes);
    });
  }

  // -- graphs -----------------------------------------------------------------

  std::unique_ptr<capture> begin_capture(const device& on) override {
    begin_call(on);
    ++captures;
    std::uint64_t graph = 0;
    {
      const std::lock_guard hold{lock_};
      graph = ++graphs_;
    }
    return std::make_unique<simulated_capturing>(
      on, graph,
      [this, on] {
        begin_call(on);
        ++launches;
      },
      [this, graph] { end_graph(graph); });
  }

  // -- kernels ----------------------------------------------------------------

  const op_kernels* find_kernels(const op& definition, dtype type) override {
    const auto* const host = definition.find_kernels(type);
    if (!host || definition.name == without_kernels)
      return nullptr;
    const std::lock_guard hold{lock_};
    return &rows_
              .try_emplace({&definition, type},
                           op_kernels{type, forward,
                                      host->backward ? backward : nullptr,
                                      device_kind::cuda})
              .first->second;
  }

  // -- rows of tensors --------------------------------------------------------

  void add_rows(const sparse_rows& rows, tensor& sum) override {
    begin_call(sum.device());
    simulated_capture::refuse("add_rows");
    const simulated_work of_the_device;
    ++row_sums;
    auto host = sum.to({});
    rows_on_host(rows).add_to(host);
    sum.copy_from(host);
  }
  sparse_rows sum_rows(const sparse_rows& rows) override {
    begin_call(rows.rows().device());
    simulated_capture::refuse("sum_rows");
    const simulated_work of_the_device;
    ++row_sums;
    const auto host = rows_on_host(rows).sorted();
    return {host.dims(), host.indices(), host.rows().to(rows.rows().device())};
  }

  // -- training ---------------------------------------------------------------

  void update(const device& on, const rule_coefficients& step, float* values,
              const float* gradient, const std::array<float*, 2>& slots,
              std::size_t n, const std::int32_t* is_skipped) override {
    begin_call(on);
    simulated_capture::refuse("an update");
    EXPECT_GT(n, 0u);
    ++updates;
    if (is_skipped && *element_of(on, is_skipped) != 0)
      return;
    const flush_denormals flushing;
    rule_step{step}(element_of(on, values), element_of(on, gradient),
                    {element_of(on, slots[0]), element_of(on, slots[1])}, n);
  }
  void update_rows(const device& on, const rule_coefficients& step,
                   float* values, const sparse_rows& gradient,
                   const std::array<float*, 2>& slots) override {
    begin_call(on);
    const simulated_work of_the_device;
    EXPECT_GT(gradient.count(), 0u);
    EXPECT_EQ(gradient.rows().device(), on);
    ++updates;
    const auto host = rows_on_host(gradient);
    const auto size = host.row_size();
    const auto* from = host.rows().data<float>().data();
    const flush_denormals flushing;
    for (const auto row : host.indices().data<std::int64_t>()) {
      const auto at_row = [&](float* x) {
        return x ? element_of(on, x) + std::size_t(row) * size : nullptr;
      };
      rule_step{step}(at_row(values), from,
                      {at_row(slots[0]), at_row(slots[1])}, size);
      from += size;
    }
  }
  void find_exceeding(const device& on, const float* x, std::size_t n,
                      float limit, std::int32_t* found) override {
    begin_call(on);
    simulated_capture::refuse("a check");
    EXPECT_GT(n, 0u);
    ++checks;
    if (kernels().any_exceeds(element_of(on, x), n, limit))
      *element_of(on, found) = 1;
  }

  bool is_pinned(const void* block) {
    const std::lock_guard hold{lock_};
    return pinned_.contains(static_cast<std::byte*>(const_cast<void*>(block)));
  }

  /// Memory of each device, in bytes.
  std::size_t limit = std::size_t{1} << 30;
  /// The devices have no kernels for the op with this name.
  std::string without_kernels;
  std::atomic<int> copies = 0; ///< Calls of `copy`.
  /// Calls of `copy` to the CPU by a program, which wait for the device.
  std::atomic<int> copies_to_host = 0;
  std::atomic<int> updates = 0;      ///< Calls of `update`.
  std::atomic<int> checks = 0;       ///< Calls of `find_exceeding`.
  std::atomic<int> copies_ahead = 0; ///< Copies in the stream `copy`.
  std::atomic<int> waits = 0;        ///< Calls of `event::synchronize`.
  std::atomic<int> row_sums = 0;     ///< Calls of `add_rows` and `sum_rows`.
  std::atomic<int> captures = 0;     ///< That were begun.
  std::atomic<int> launches = 0;     ///< Of all graphs.

private:
  struct block {
    std::byte* readable = nullptr;
    std::size_t bytes = 0;
    device on;
    std::uint64_t allocated = 0; ///< Number of the call.
    std::uint64_t graph = 0;     ///< That owns the block. 0: none.
    bool is_used = true;         ///< By a tensor.
  };
  using block_map = std::map<std::byte*, block>;

  /// A copy that has not taken place, or of which the host does not know it.
  struct delayed_copy {
    device on;
    bool is_made = false;     ///< It has taken place.
    std::uint64_t number = 0; ///< Of the call.
    stream in = stream::compute;
    std::size_t bytes = 0;
    std::byte* into = nullptr;
    const std::byte* out_of = nullptr; ///< Null: `elements` are copied.
    std::vector<std::byte> elements{};
    const std::byte* host = nullptr;  ///< Begin of the memory of the host.
    const std::byte* block = nullptr; ///< Begin of the memory of the device.
  };

  class event final : public device_backend::event {
  public:
    event(simulated_devices& owner, const device& on)
      : owner_{owner}, on_{on} {}
    void record(stream in) override {
      owner_.begin_call(on_);
      simulated_capture::refuse("an event");
      const std::lock_guard hold{owner_.lock_};
      in_ = in;
      number_ = owner_.calls_;
    }
    void block(stream later) override {
      owner_.begin_call(on_);
      simulated_capture::refuse("an event");
      const std::lock_guard hold{owner_.lock_};
      if (later == in_)
        return;
      if (later == stream::copy)
        owner_.copies_follow_ = std::max(owner_.copies_follow_, number_);
      else
        owner_.make_copies(in_, number_);
    }
    // After a call of these, the host knows which copies have taken place.
    void synchronize() override {
      owner_.begin_call(on_);
      simulated_capture::refuse("an event");
      ++owner_.waits;
      {
        const std::lock_guard hold{owner_.lock_};
        owner_.make_copies(in_, number_);
        owner_.forget_made(in_, number_);
      }
      owner_.refuse_invalid_value();
    }
    bool is_done() override {
      simulated_capture::refuse("an event");
      const std::lock_guard hold{owner_.lock_};
      if (std::ranges::any_of(owner_.delayed_, [&](const auto& x) {
            return x.in == in_ && x.number <= number_ && !x.is_made;
          }))
        return false;
      owner_.forget_made(in_, number_);
      return true;
    }

  private:
    simulated_devices& owner_;
    const device on_;
    stream in_ = stream::compute;
    std::uint64_t number_ = 0; ///< Of the last call before the event.
  };

  struct loss {
    std::uint64_t calls = 0;                   ///< So far.
    std::optional<std::uint64_t> calls_left{}; ///< None: it is not to be lost.
    bool is_lost = false;
  };

  /// Counts a call. No effect for the CPU.
  /// @errors throws device_lost if the device is lost.
  void begin_call(const device& on) {
    if (on.kind == device_kind::cpu)
      return;
    const std::lock_guard hold{lock_};
    auto& x = losses_[on.index];
    ++x.calls;
    if (x.calls_left == 0u)
      end_work(on);
    if (x.calls_left && *x.calls_left > 0)
      --*x.calls_left;
    throw_if_lost(on);
  }
  /// The device is lost, and copies nothing more. @pre `lock_` is held.
  void end_work(const device& on) {
    losses_[on.index].is_lost = true;
    std::erase_if(delayed_, [&](const auto& one) { return one.on == on; });
  }
  /// @pre `lock_` is held.
  void throw_if_lost(const device& on) {
    if (losses_[on.index].is_lost)
      throw device_lost{to_string(on) + " has failed: the test has lost it"};
  }

  /// Makes the copies of a stream up to a number.
  void make_copies(stream in, std::uint64_t last) {
    for (auto& x : delayed_)
      if (x.in == in && x.number <= last && !std::exchange(x.is_made, true))
        std::memcpy(x.into, x.out_of ? x.out_of : x.elements.data(), x.bytes);
  }

  void forget_made(stream in, std::uint64_t last) {
    std::erase_if(delayed_, [&](const delayed_copy& x) {
      return x.is_made && x.in == in && x.number <= last;
    });
  }

  /// Expects that no copy to or from a block is to be made. What the stream
  /// `compute` reads was read already.
  void expect_unused(const std::byte* begin) {
    for (const auto& x : delayed_) {
      EXPECT_NE(x.host, begin) << "memory of the host was released too early";
      EXPECT_FALSE(!x.is_made && x.in == stream::copy && x.block == begin)
        << "a copy was released too early";
    }
  }

  /// Does work of a device, or captures it if the calling thread captures.
  /// @param work called with the number of the step.
  template <class F>
  static void give_work(const device& on, F&& work) {
    if (auto* const capture = simulated_capture::find(on))
      capture->list.emplace_back(std::forward<F>(work));
    else
      work(0);
  }

  /// Returns a function that returns where the host has an address, and throws
  /// std::logic_error if the block was released meanwhile.
  template <class Byte>
  std::function<Byte*()> place_of(const device& on, Byte* address) {
    const auto allocated = allocated_at(on, address);
    return [this, on, address, allocated] {
      if (allocated_at(on, address) != allocated)
        throw std::logic_error("a graph uses memory that was released");
      return on_host(on, address);
    };
  }

  /// Returns the number of the call that has allocated a block.
  std::uint64_t allocated_at(const device& on, const std::byte* address) {
    if (on.kind == device_kind::cpu)
      return 0;
    const std::lock_guard hold{lock_};
    const auto after = blocks_.upper_bound(const_cast<std::byte*>(address));
    return after == blocks_.begin() ? 0 : std::prev(after)->second.allocated;
  }

  block_map::iterator unmap(block_map::iterator at) {
    const auto& [address, x] = *at;
    ::munmap(address, size_of_mapping(x.bytes));
    ::munmap(x.readable, size_of_mapping(x.bytes));
    used_.at(x.on.index).live -= x.bytes;
    return blocks_.erase(at);
  }

  /// Releases the memory of a graph that no tensor uses.
  void end_graph(std::uint64_t graph) {
    const std::lock_guard hold{lock_};
    for (auto at = blocks_.begin(); at != blocks_.end();) {
      auto& x = at->second;
      if (x.graph != graph) {
        ++at;
        continue;
      }
      x.graph = 0;
      at = x.is_used ? std::next(at) : unmap(at);
    }
  }

  static std::size_t size_of_mapping(std::size_t bytes) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    return (std::max<std::size_t>(bytes, 1) + page - 1) / page * page;
  }

  /// Returns where the host can read an address of a device.
  template <class Byte>
  Byte* on_host(const device& on, Byte* address) {
    if (on.kind == device_kind::cpu)
      return address;
    const std::lock_guard hold{lock_};
    auto at = blocks_.upper_bound(const_cast<std::byte*>(address));
    EXPECT_NE(at, blocks_.begin());
    --at;
    EXPECT_EQ(at->second.on, on);
    return at->second.readable + (address - at->first);
  }

  static sparse_rows rows_on_host(const sparse_rows& x) {
    return {x.dims(), x.indices().to({}), x.rows().to({})};
  }

  /// Returns where the host can access an element. Null: null.
  template <class T>
  T* element_of(const device& on, T* x) {
    using byte =
      std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
    return x ? reinterpret_cast<T*>(on_host(on, reinterpret_cast<byte*>(x)))
             : nullptr;
  }

  template <class List>
  static void to_host(List& list) {
    for (auto& x : list)
      if (x)
        x = x.to({});
  }

  /// Work of a device that is done on the host. Its copies to the host are no
  /// waits of the program.
  class simulated_work {
  public:
    simulated_work() { ++depth_; }
    ~simulated_work() { --depth_; }
    simulated_work(const simulated_work&) = delete;
    simulated_work& operator=(const simulated_work&) = delete;

    /// True if the calling thread does such work.
    static bool is_under_way() { return depth_ > 0; }

  private:
    static inline thread_local int depth_ = 0;
  };

  /// Throws what the first kernel has refused, once.
  void refuse_invalid_value() {
    if (simulated_work::is_under_way())
      return;
    std::exception_ptr found;
    {
      const std::lock_guard hold{lock_};
      found = std::exchange(invalid_value_, nullptr);
    }
    if (found)
      std::rethrow_exception(found);
  }

  static simulated_devices& backend_of_call(const op_call& call) {
    return dynamic_cast<simulated_devices&>(backend_of(call.on));
  }

  /// Calls a kernel of the CPU. If it refuses a value, its results are NaN. Its
  /// gradients then are as they were, or 0.
  static void call_kernel(op_call& host, op_kernel kernel,
                          simulated_devices& owner) {
    try {
      kernel(host);
    } catch (const std::logic_error&) {
      for (auto& x : host.out)
        if (x)
          std::memset(x.raw(), 0xff, x.bytes());
      for (std::size_t i = 0; i < host.grad_in.size(); ++i)
        if (host.grad_in[i] && !host.accumulates(i))
          host.grad_in[i].set_zero();
      const std::lock_guard hold{owner.lock_};
      if (!owner.invalid_value_)
        owner.invalid_value_ = std::current_exception();
    }
  }

  captured_tensor captured(const tensor& x) {
    if (!x)
      return {};
    return {x.spec(), place_of(x.device(), x.address())};
  }
  template <class List>
  captured_tensors captured(const List& list) {
    captured_tensors out;
    for (const auto& x : list)
      out.push_back(captured(x));
    return out;
  }

  /// Captures a call of a kernel.
  void capture_call(op_call& call, op_kernel kernel, bool is_forward,
                    simulated_capture& into) {
    for (std::size_t i = 0; i < call.grad_rows.size(); ++i)
      if (call.wants_rows(i))
        simulated_capture::refuse("a sparse gradient");
    captured_call made{.definition = call.definition,
                       .type = call.type,
                       .options = std::as_const(call.options),
                       .in = captured(call.in),
                       .out = captured(call.out),
                       .saved = {},
                       .grad_out = captured(call.grad_out),
                       .grad_in = captured(call.grad_in),
                       .accumulate = {},
                       .is_forward = is_forward};
    for (const auto x : call.accumulate)
      made.accumulate.push_back(x);
    if (is_forward)
      for (const auto& spec : made.specs_of_saved(kernel))
        call.saved.push_back(tensor{spec, call.on});
    made.saved = captured(call.saved);
    into.random_ops += made.is_random() ? 1 : 0;
    into.list.emplace_back([this, kernel,
                            made = std::move(made)](std::uint64_t step) {
      made.run(step, [&](op_call& host) { call_kernel(host, kernel, *this); });
    });
  }

  /// Runs a kernel of the CPU on copies of the tensors of a call.
  static void run(op_call& call, op_kernel kernel, bool is_forward) {
    backend_of_call(call).begin_call(call.on);
    if (auto* const capture = simulated_capture::find(call.on))
      return backend_of_call(call).capture_call(call, kernel, is_forward,
                                                *capture);
    const simulated_work of_the_device;
    op_call host = call;
    host.on = {};
    small_list<tensor, 3> in;
    for (const auto& x : call.in) {
      EXPECT_TRUE(!x || x.device() == call.on) << call.definition->name;
      in.push_back(x ? x.to({}) : x);
    }
    small_list<tensor, 4> grads;
    for (const auto& x : call.grad_in)
      grads.push_back(x ? x.to({}) : x);
    host.in = {in.data(), in.size()};
    host.grad_in = {grads.data(), grads.size()};
    for (auto* list : {&host.out, &host.grad_out})
      to_host(*list);
    to_host(host.saved);
    call_kernel(host, kernel, backend_of_call(call));
    for (std::size_t i = 0; i < grads.size(); ++i)
      if (grads[i])
        call.grad_in[i].copy_from(grads[i]);
    for (std::size_t i = 0; i < call.grad_rows.size(); ++i)
      if (auto& rows = call.grad_rows[i])
        rows = {rows.dims(), rows.indices().to(call.on),
                rows.rows().to(call.on)};
    for (std::size_t i = 0; i < call.out.size(); ++i)
      if (call.out[i])
        call.out[i].copy_from(host.out[i]);
    call.saved = {};
    for (const auto& x : host.saved)
      call.saved.push_back(x.to(call.on));
  }

  static void forward(op_call& call) {
    run(call, call.definition->find_kernels(call.type)->forward, true);
  }
  static void backward(op_call& call) {
    run(call, call.definition->find_kernels(call.type)->backward, false);
  }

  const std::uint32_t count_;
  std::mutex lock_;
  block_map blocks_;
  std::vector<delayed_copy> delayed_;
  std::uint64_t calls_ = 0;  ///< Of `allocate` and `start_copy`.
  std::uint64_t graphs_ = 0; ///< Number of the last one.
  /// The stream `copy` follows the calls up to this number.
  std::uint64_t copies_follow_ = 0;
  std::set<std::byte*> pinned_;
  std::exception_ptr invalid_value_; ///< Of the first kernel that refused one.
  std::array<memory::usage, max_devices> used_{};
  std::array<loss, max_devices> losses_{};
  std::map<std::pair<const op*, dtype>, op_kernels> rows_;
};

} // namespace troupe::test
