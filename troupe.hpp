#pragma once

// Includes all headers that a training program needs. They name no CAF type. A
// test of training under faults also includes headers of "troupe/simulation/"
// and links Troupe::simulation.

#include "troupe/actors/core/log.hpp"
#include "troupe/actors/core/version.hpp"
#include "troupe/actors/runtime/runtime.hpp"
#include "troupe/data/sources/csv.hpp"
#include "troupe/data/sources/digits.hpp"
#include "troupe/data/sources/idx.hpp"
#include "troupe/data/sources/synthetic.hpp"
#include "troupe/models/layers.hpp"
#include "troupe/models/losses.hpp"
#include "troupe/models/metrics.hpp"
#include "troupe/models/network.hpp"
#include "troupe/models/zoo.hpp"
#include "troupe/net/cluster/tf_config_resolver.hpp"
#include "troupe/tensors/op_check.hpp"
#include "troupe/tensors/ops/binary.hpp"
#include "troupe/tensors/ops/concat.hpp"
#include "troupe/tensors/ops/conv2d.hpp"
#include "troupe/tensors/ops/dense.hpp"
#include "troupe/tensors/ops/dropout.hpp"
#include "troupe/tensors/ops/embedding_lookup.hpp"
#include "troupe/tensors/ops/max_pool2d.hpp"
#include "troupe/tensors/ops/reduce.hpp"
#include "troupe/tensors/ops/reshape.hpp"
#include "troupe/tensors/ops/sigmoid_cross_entropy.hpp"
#include "troupe/tensors/ops/softmax_cross_entropy.hpp"
#include "troupe/tensors/ops/unary.hpp"
#include "troupe/tensors/parameter_gradient.hpp"
#include "troupe/tensors/random.hpp"
#include "troupe/tensors/tape.hpp"
#include "troupe/training/loop/model/optimizer.hpp"
#include "troupe/training/model.hpp"
#include "troupe/training/parameter_server/cluster_coordinator.hpp"
#include "troupe/training/parameter_server/registered_closures.hpp"
#include "troupe/training/parameter_server/server_model.hpp"
#include "troupe/training/parameter_server/server_optimizer.hpp"
#include "troupe/training/remote/remote_strategy.hpp"
#include "troupe/training/remote/step_functions.hpp"
#include "troupe/training/strategies/local_strategies.hpp"
#include "troupe/training/strategies/multi_worker.hpp"
#include "troupe/training/strategies/training_loop.hpp"
#include "troupe/training/support/print_tensor.hpp"

namespace troupe {

using models::cross_entropy;

} // namespace troupe
