/// Lines of smtpd, which may have been taken over, to the program cyrus: its hello, then requests.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "lib/trust/sasl/dovecot_requests.h"

namespace {

using namespace pen::sasl::dovecot;

bool is_c_string(const std::string& text) { return text.find('\0') == std::string::npos && text.size() <= kMaxField; }

void check(const Asked& asked) {
  if (asked.id == 0) std::abort();
  if (asked.kind != Asked::Kind::start) return;
  if (asked.request.mechanism.empty() || asked.request.mechanism.size() > 20) std::abort();
  for (const std::string* text :
       {&asked.request.mechanism, &asked.request.service, &asked.request.local_address, &asked.request.remote_address})
    if (!is_c_string(*text)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  ClientHello hello;
  bool greeted = false;
  while (!text.empty()) {
    const auto end = text.find('\n');
    const auto line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (!greeted) {
      const auto fed = hello.feed(line);
      if (!fed) return 0;
      greeted = *fed;
      if (!greeted) continue;
      const Application said = hello.take_application();
      if (said.name.empty() || !is_c_string(said.name) || !is_c_string(said.realm) || !is_c_string(said.host))
        std::abort();
      continue;
    }
    const auto asked = parse_request(line);
    if (!asked) return 0;
    if (*asked) check(**asked);
  }
  return 0;
}
