#pragma once

#include "troupe/training/loop/options/history.hpp"

#include <string>

/// Returns "loss 0.1812  accuracy 0.9500".
std::string text_of_evaluation(const troupe::evaluation& found);

/// Returns "test accuracy 0.9500  test loss 0.1812".
std::string text_of_test(const troupe::evaluation& test);
