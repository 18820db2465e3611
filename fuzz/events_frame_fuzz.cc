/// What programs tell penevents, and what readers ask of it: never more than a line of valid JSON, and a row, each.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "lib/base/check.h"
#include "penevents/accounting.h"
#include "penevents/json.h"
#include "penevents/request.h"

using namespace pen;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  std::string_view rest = input;
  while (const auto seen = events::next(rest)) {
    const std::string line =
        penevents::json_line(1, *seen, {.host = "mx.example.org", .program = input.substr(0, 64), .service = "x"});
    PEN_CHECK(line.ends_with("}\n") && std::ranges::count(line, '\n') == 1);
    PEN_CHECK(nlohmann::json::accept(line), line.c_str());
    if (const auto row = penevents::accounting_line(*seen)) PEN_CHECK(std::ranges::count(*row, '\n') == 1);
  }
  (void)penevents::Request::parse(input.substr(0, penevents::Request::kMaxLine));
  return 0;
}
