// DNS replies from anybody: the first two bytes choose the question, the rest is the packet, adjusted to id and type.
#include <cstddef>
#include <cstdint>

#include "lib/base/check.h"
#include "lib/net/dns_packet.h"

using namespace pen::net;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  static constexpr RecordType kTypes[] = {RecordType::a,   RecordType::mx,   RecordType::cname, RecordType::ptr,
                                          RecordType::txt, RecordType::aaaa, RecordType::tlsa};
  DnsQuestion question{"h.example", kTypes[data[0] % 7]};
  std::string wire(reinterpret_cast<const char*>(data + 2), size - 2);
  std::uint16_t id = 0;
  if (wire.size() >= 2)
    id = static_cast<std::uint16_t>(static_cast<unsigned char>(wire[0]) << 8 | static_cast<unsigned char>(wire[1]));
  if ((data[1] & 1) != 0) {
    // The packet answers the question asked, so that the fuzzer gets past that check.
    const auto query = build_query(question, id, false, false);
    PEN_CHECK(query.has_value());
    if (wire.size() > 12) wire = wire.substr(0, 12) + query->substr(12) + wire.substr(12);
    if (wire.size() > 5) {
      wire[2] = static_cast<char>(wire[2] | 0x80);
      wire[4] = 0;
      wire[5] = 1;
    }
  }
  const auto reply = parse_reply(wire, question, id);
  if (!reply) return 0;
  PEN_CHECK(reply->answers.size() <= kMaxRecords);
  std::size_t aliases = 0;
  const auto reading = read_reply(*reply, question, aliases);
  PEN_CHECK(aliases <= kMaxAliases + 1);
  for (const auto& record : reading.answer.records) PEN_CHECK(record.type == question.type);
  if (!reading.next.empty()) PEN_CHECK(build_query({reading.next, question.type}, 1, true, true).has_value());
  return 0;
}
