/// What filters say: a packet of any bytes is an edit, a verdict or an error, and a reply is fit for a client.
///
/// Input: the first byte chooses the actions that were agreed on; then a packet, and the same as a negotiation.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lib/base/check.h"
#include "lib/receive/milter/protocol.h"

using namespace pen::milter;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Packet packet = parse_packet(bytes);
  const auto edit = parse_edit(packet, data[0]);
  if (edit && *edit) {
    PEN_CHECK((*edit)->name.size() + (*edit)->value.size() <= packet.data.size());
    PEN_CHECK(!(*edit)->name.contains('\0'));
  }
  if (const auto final = parse_final(packet); final && *final && (*final)->answer == Answer::refuse) {
    const auto& reply = (*final)->reply;
    PEN_CHECK(!reply.empty());
    for (std::size_t i = 0; i < reply.size(); ++i) {
      PEN_CHECK(reply[i].size() >= 3 && (reply[i][0] == '4' || reply[i][0] == '5'));
      PEN_CHECK(reply[i].find_first_of("\r\n\0") == std::string::npos);
      PEN_CHECK(reply[i].size() == 3 || reply[i][3] == (i + 1 == reply.size() ? ' ' : '-'));
    }
  }
  for (const std::uint32_t version : {2U, 6U}) {
    const Offer offer{.version = version, .no_header_reply = false};
    const auto agreed = Negotiation::parse(bytes, offer);
    if (agreed) PEN_CHECK(agreed->version >= 2 && agreed->version <= version && (agreed->actions & ~action::kAll) == 0);
  }
  return 0;
}
