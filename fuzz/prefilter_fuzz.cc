// A pattern, a line end, a text: skipped patterns do not match, and machine code finds the same as the interpreter.
#include <algorithm>
#include <cstdlib>

#include "lib/map/testing/pattern_reference.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view in(reinterpret_cast<const char*>(data), size);
  const auto end = in.find('\n');
  if (end == std::string_view::npos || end > 200 || size > 2000 || in.find('\0') != in.npos) return 0;
  // The memory of the C library's regcomp() doubles with each repetition of a repetition.
  if (std::count_if(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(end),
                    [](char c) { return c == '+' || c == '{'; }) > 6)
    return 0;
  const auto seen = pen::map::reference::compare_ways(std::string(in.substr(0, end)), std::string(in.substr(end + 1)));
  if (!seen.problem.empty()) std::abort();
  return 0;
}
