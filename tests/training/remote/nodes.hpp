#pragma once

#include "troupe/actors/node/node_server.hpp"
#include "troupe/actors/node/remote_node.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/tests/support/becomes_true.hpp"
#include "troupe/tests/training/small_jobs.hpp"
#include "troupe/training/loop/model/optimizer.hpp"
#include "troupe/training/remote/remote_strategy.hpp"
#include "troupe/training/remote/step_functions.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

// Helpers that start nodes in this process, each with its own runtime and
// endpoint, and step functions for these nodes.

namespace troupe::test {

struct node_of_steps {
  explicit node_of_steps(const std::string& name, steps_factory make,
                         const node_server_options& options = {}) {
    register_steps(actors, name, std::move(make));
    server = std::make_unique<node_server>(actors, options);
  }

  runtime actors;
  std::unique_ptr<node_server> server;
};

struct several_nodes {
  several_nodes(std::size_t count, const std::string& name,
                const steps_factory& make,
                const node_server_options& options = {}) {
    for (std::size_t i = 0; i < count; ++i) {
      nodes.push_back(std::make_unique<node_of_steps>(name, make, options));
      addresses.push_back(nodes.back()->server->address());
    }
  }

  std::vector<std::unique_ptr<node_of_steps>> nodes;
  std::vector<std::string> addresses;
};

inline tensor bytes_of(const std::string& text) {
  auto x =
    tensor::zeros({static_cast<std::int64_t>(text.size())}, dtype::uint8);
  std::copy(text.begin(), text.end(), x.mutable_data<std::uint8_t>().begin());
  return x;
}

inline std::string text_of(const tensor& x) {
  const auto bytes = x.data<std::uint8_t>();
  return {bytes.begin(), bytes.end()};
}

inline std::vector<std::string> cpus(std::uint32_t count) {
  std::vector<std::string> all;
  for (std::uint32_t i = 0; i < count; ++i)
    all.push_back("cpu:" + std::to_string(i));
  return all;
}

inline job_error job_error_of(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const job_error& x) {
    return x;
  } catch (const std::exception& x) {
    ADD_FAILURE() << x.what();
  }
  ADD_FAILURE() << "no failure";
  return {ec::busy, ""};
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

/// Waits until all roles on the node have ended.
inline void expect_no_roles_on(remote_node& node) {
  EXPECT_TRUE(becomes_true([&] { return node.info().running.empty(); }));
}

/// Returns step functions. "who" returns the replica's id and inputs, and
/// "fail" throws on replica 1. "said" returns two tensors: a text that consists
/// of `argument` and the worker's number, and the first input of the call.
inline step_functions echo(const strategy& strategy,
                           const std::string& argument) {
  step_functions functions;
  functions.run["who"] = [](replica_context& self, const tensors& in) {
    tensors out{tensor::full({}, double(self.replica_id()))};
    out.insert(out.end(), in.begin(), in.end());
    return out;
  };
  functions.run["fail"] = [](replica_context& self, const tensors&) -> tensors {
    if (self.replica_id() == 1)
      throw std::runtime_error("the disk went away");
    return {self.all_reduce(sum, tensor::full({4}, 1))};
  };
  functions.call["said"] = [argument,
                            worker = strategy.worker()](const tensors& in) {
    return tensors{bytes_of(argument + std::to_string(worker)), in.at(0)};
  };
  return functions;
}

} // namespace troupe::test
