// The headers that most files include, precompiled where PEN_PRECOMPILE asks for it (penstock.cmake). Never included
// by hand.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <coroutine>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#ifdef BOOST_TEST_DYN_LINK
#include <boost/test/unit_test.hpp>
#endif
