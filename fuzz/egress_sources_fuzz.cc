/// The file of sources, from an author who may write it but mistypes: what was read and is written again is read
/// alike, and a pool's order has its members.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/check.h"
#include "lib/base/date.h"
#include "lib/send/egress/choose.h"
#include "lib/send/egress/file.h"

using namespace pen;
using namespace pen::egress;

namespace {

std::string encoded(const std::string& text) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    const auto b = static_cast<unsigned char>(c);
    out += {'%', kDigits[b >> 4U], kDigits[b & 15U]};
  }
  return out;
}

std::string written(const File& f) {
  std::string out;
  for (const Source& s : f.sources) {
    out += "source " + s.name + " weight=" + std::to_string(s.weight);
    if (!s.address.empty()) out += " address=" + s.address;
    if (!s.address6.empty()) out += " address6=" + s.address6;
    if (!s.helo.empty()) out += " helo=" + s.helo;
    if (s.warmup) out += " warmup=" + (s.warmup_from > 0 ? utc_day(WallTime(std::chrono::days(s.warmup_from))) : "yes");
    if (s.proxy.kind != Proxy::Kind::none) {
      std::string url = s.proxy.shown();
      if (!s.proxy.user.empty())
        url.insert(url.find("//") + 2, encoded(s.proxy.user) + ":" + encoded(s.proxy.password) + "@");
      out += " proxy=" + url;
    }
    out += '\n';
  }
  for (const Pool& p : f.pools) {
    out += "pool " + p.name;
    for (const Member& m : p.members) out += " " + f.sources[m.source].name + "*" + std::to_string(m.weight);
    out += '\n';
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Parsed first = parse(text);
  for (const Fault& f : first.faults) PEN_CHECK(f.line > 0 && !f.text.empty());
  Parsed again = parse(written(first.file));
  PEN_CHECK(again.faults.empty());
  PEN_CHECK(again.file.pools == first.file.pools && again.file.sources.size() == first.file.sources.size());
  for (std::size_t i = 0; i < first.file.sources.size(); ++i) {
    again.file.sources[i].line = first.file.sources[i].line;
    PEN_CHECK(again.file.sources[i] == first.file.sources[i]);
  }
  for (const Pool& p : first.file.pools) {
    const auto order = order_of(first.file, p, size);
    PEN_CHECK(!order.empty() && order.size() <= p.members.size());
  }
  return 0;
}
