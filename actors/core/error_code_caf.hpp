#pragma once

#include "troupe/strategies/error_code.hpp"

#include <caf/error.hpp>
#include <caf/make_message.hpp>

CAF_ERROR_CODE_ENUM(troupe::ec, "troupe")
