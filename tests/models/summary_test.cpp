#include "troupe/models/layers.hpp"
#include "troupe/models/network.hpp"
#include "troupe/models/zoo.hpp"

#include <gtest/gtest.h>

namespace troupe::models {
namespace {

TEST(Summary, OfLenetIsTheTableOfKeras) {
  EXPECT_EQ(summary(network{lenet()}), R"(Model: "lenet"
_________________________________________________________________
 Layer (type)                Output Shape              Param #
=================================================================
 conv2d_1 (conv2d)           (None, 28, 28, 32)        832
 max_pool2d_1 (max_pool2d)   (None, 14, 14, 32)        0
 conv2d_2 (conv2d)           (None, 14, 14, 64)        51,264
 max_pool2d_2 (max_pool2d)   (None, 7, 7, 64)          0
 flatten_1 (flatten)         (None, 3136)              0
 dense_1 (dense)             (None, 1024)              3,212,288
 dense_2 (dense)             (None, 10)                10,250
=================================================================
Total params: 3,274,634
Trainable params: 3,274,634
Non-trainable params: 0
_________________________________________________________________
)");
}

TEST(Summary, ColumnsGrowWithNamesAndCountsIncludeNestedLayers) {
  dense long_named{2};
  long_named.name = "a_name_that_is_rather_too_long_for_it";
  const model_description nested{
    "nested",
    {3, 1},
    stack(sequential{stack(flatten{}, long_named, dense{4})}, long_named)};
  EXPECT_EQ(summary(network{nested}), R"(Model: "nested"
____________________________________________________________________________________
 Layer (type)                                   Output Shape              Param #
====================================================================================
 sequential_1 (sequential)                      (None, 4)                 20
 a_name_that_is_rather_too_long_for_it (dense)  (None, 2)                 10
====================================================================================
Total params: 30
Trainable params: 30
Non-trainable params: 0
____________________________________________________________________________________
)");
}

} // namespace
} // namespace troupe::models
