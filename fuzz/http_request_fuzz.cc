/// Headers and bodies that anybody may send to penapi: bounded, and a body that is taken as an order names messages.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lib/base/check.h"
#include "penapi/http.h"
#include "penapi/selection.h"

using namespace pen::api;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view input(reinterpret_cast<const char*>(data), size);
  RequestHead head;
  while (!head.done()) {
    const auto end = input.find('\n');
    if (end == std::string_view::npos) return 0;
    std::string_view line = input.substr(0, end);
    input.remove_prefix(end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (head.take(line)) return 0;
  }
  PEN_CHECK(head.length() <= kMaxBody);
  const Request& request = head.request();
  for (const auto& segment : request.path) PEN_CHECK(!segment.empty() && !segment.contains('\0'));
  (void)is_own_host(request.host, "mx.example.org");
  auto query = request.query;
  pen::ipc::queue::Filter filter;
  if (take_filter(query, filter).empty()) PEN_CHECK(filter.older.count() >= 0);
  const auto act = order_of(input.substr(0, head.length()), pen::ipc::queue::Verb::hold);
  if (act) PEN_CHECK(act->all != !act->queue_ids.empty() && act->queue_ids.size() <= 1000);
  return 0;
}
