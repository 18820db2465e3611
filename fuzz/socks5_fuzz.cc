/// What a SOCKS5 proxy says, whole and byte by byte: the same end, and no more is taken than replies have.
///
/// Input: a byte with bits that choose kind, login and family, then the proxy's bytes.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/check.h"
#include "lib/send/egress/socks5.h"

using namespace pen;
using namespace pen::egress;

namespace {
struct End {
  Socks5::State state;
  Socks5::Fault fault;
  std::string why, sent;
  std::size_t taken = 0;
  bool operator==(const End&) const = default;
};

End talk(std::uint8_t choice, std::string_view said, std::size_t piece) {
  Proxy p;
  p.kind = (choice & 1U) != 0 ? Proxy::Kind::socks5_bind : Proxy::Kind::socks5;
  if ((choice & 2U) != 0) p.user = p.password = "secret";
  const auto address = parse_ip((choice & 4U) != 0 ? "2001:db8::7" : "192.0.2.7");
  Socks5 s(p, *address, *address, 25);
  End end{};
  end.sent = s.take_output();
  std::string pending;
  for (std::size_t at = 0; at < said.size() && s.state() == Socks5::State::talking; at += piece) {
    pending += said.substr(at, piece);
    const std::size_t used = s.feed(pending);
    PEN_CHECK(used <= pending.size());
    end.taken += used;
    pending.erase(0, used);
    end.sent += s.take_output();
    PEN_CHECK(pending.size() <= 262 + piece);
  }
  PEN_CHECK((s.state() == Socks5::State::failed) == !s.why().empty());
  end.state = s.state();
  end.fault = s.fault();
  end.why = s.why();
  return end;
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view said(reinterpret_cast<const char*>(data) + 1, size - 1);
  const End bytewise = talk(data[0], said, 1);
  const End whole = talk(data[0], said, said.size() + 1);
  PEN_CHECK(bytewise.state == whole.state && bytewise.sent == whole.sent);
  if (whole.state == Socks5::State::done) PEN_CHECK(bytewise == whole);
  return 0;
}
