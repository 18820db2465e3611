/// Headers of the PROXY protocol from anybody: bounded, complete or not as the reader expects, and the same whatever
/// follows them.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/check.h"
#include "lib/net/proxy_header.h"

using namespace pen::net;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const auto header = parse_proxy_header(input);
  const std::size_t part = proxy_header_part(input);
  PEN_CHECK(part <= size && (part > 0 || size == 0));
  if (!header) return 0;
  if (!*header) {
    PEN_CHECK(part == size && size < kMaxProxyHeader);  // else a reader would wait for ever, or lose bytes
    return 0;
  }
  const ProxyHeader& h = **header;
  PEN_CHECK(h.size == part && h.size <= kMaxProxyHeader);
  PEN_CHECK(h.local == (h.client.size == 0) && h.local == (h.server.size == 0));
  const auto again = parse_proxy_header(std::string(input.substr(0, part)) + "EHLO x\r\n");
  PEN_CHECK(again && *again && (*again)->size == part && (*again)->client == h.client);
  for (std::size_t less = 0; less < part; ++less) PEN_CHECK(!parse_proxy_header(input.substr(0, less)).value());
  return 0;
}
