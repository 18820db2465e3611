#include "lib/net/dns_packet.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <memory>

#include "lib/base/idn/domain.h"
#include "lib/base/text.h"

// ldns.h defines bool as a macro, so it is included last.
#include <ldns/ldns.h>
#undef bool

namespace pen::net {
namespace {

struct FreePacket {
  void operator()(ldns_pkt* p) const { ldns_pkt_free(p); }
};
using Packet = std::unique_ptr<ldns_pkt, FreePacket>;

constexpr bool host_byte(char c) {
  // Names by RFC 2317 have slashes.
  return ascii_alnum(c) || c == '-' || c == '_' || c == '/' || c == '*';
}

/// The text of a name in wire form; nullopt: it has bytes that no host name has.
std::optional<std::string> name_text(const ldns_rdf* rdf) {
  if (rdf == nullptr || ldns_rdf_get_type(rdf) != LDNS_RDF_TYPE_DNAME) return std::nullopt;
  const std::string_view wire(reinterpret_cast<const char*>(ldns_rdf_data(rdf)), ldns_rdf_size(rdf));
  std::string out;
  std::size_t i = 0;
  while (i < wire.size()) {
    const auto size = static_cast<unsigned char>(wire[i++]);
    if (size == 0) return i == wire.size() ? std::optional(std::move(out)) : std::nullopt;
    if (size > 63 || wire.size() - i < size) return std::nullopt;
    if (!out.empty()) out += '.';
    for (const char c : wire.substr(i, size)) {
      if (!host_byte(c)) return std::nullopt;
      out += ascii_lower(c);
    }
    i += size;
  }
  return std::nullopt;
}

std::string_view raw(const ldns_rdf* rdf) {
  return {reinterpret_cast<const char*>(ldns_rdf_data(rdf)), ldns_rdf_size(rdf)};
}
const ldns_rdf* field(const ldns_rr* rr, std::size_t index) {
  return index < ldns_rr_rd_count(rr) ? ldns_rr_rdf(rr, index) : nullptr;
}

std::optional<std::string> address_text(const ldns_rdf* rdf, int family, std::size_t size) {
  if (rdf == nullptr || ldns_rdf_size(rdf) != size) return std::nullopt;
  std::array<char, INET6_ADDRSTRLEN> out{};
  inet_ntop(family, ldns_rdf_data(rdf), out.data(), out.size());
  return std::string(out.data());
}

/// The part of a record that depends on its type; nullopt: malformed.
std::optional<std::string> record_data(const ldns_rr* rr, DnsRecord& record) {
  switch (record.type) {
    case RecordType::a:
      return address_text(field(rr, 0), AF_INET, 4);
    case RecordType::aaaa:
      return address_text(field(rr, 0), AF_INET6, 16);
    case RecordType::ns:
    case RecordType::cname:
    case RecordType::ptr:
      return name_text(field(rr, 0));
    case RecordType::mx: {
      const auto* preference = field(rr, 0);
      if (preference == nullptr || ldns_rdf_size(preference) != 2) return std::nullopt;
      record.preference = ldns_rdf2native_int16(preference);
      return name_text(field(rr, 1));
    }
    case RecordType::srv: {
      for (const auto& [index, into] : {std::pair(std::size_t{0}, &record.preference),
                                        {std::size_t{1}, &record.weight},
                                        {std::size_t{2}, &record.port}}) {
        const auto* number = field(rr, index);
        if (number == nullptr || ldns_rdf_size(number) != 2) return std::nullopt;
        *into = ldns_rdf2native_int16(number);
      }
      return name_text(field(rr, 3));
    }
    case RecordType::txt: {
      std::string out;
      for (std::size_t i = 0; i < ldns_rr_rd_count(rr); ++i) {
        const std::string_view piece = raw(field(rr, i));
        if (!piece.empty()) out += piece.substr(1);  // the first byte is the length
      }
      return out;
    }
    case RecordType::tlsa: {
      std::string out;
      if (ldns_rr_rd_count(rr) != 4) return std::nullopt;
      for (std::size_t i = 0; i < 3; ++i) {
        const std::string_view byte = raw(field(rr, i));
        if (byte.size() != 1) return std::nullopt;
        out += std::to_string(static_cast<unsigned char>(byte[0])) + " ";
      }
      constexpr std::string_view kHex = "0123456789abcdef";
      for (const char c : raw(field(rr, 3))) {
        out += kHex[static_cast<unsigned char>(c) >> 4];
        out += kHex[static_cast<unsigned char>(c) & 15];
      }
      return out;
    }
    case RecordType::soa:
      break;
  }
  return std::nullopt;
}

std::optional<RecordType> known_type(ldns_rr_type type) {
  for (const auto t : {RecordType::a, RecordType::ns, RecordType::cname, RecordType::ptr, RecordType::mx,
                       RecordType::txt, RecordType::aaaa, RecordType::srv, RecordType::tlsa}) {
    if (static_cast<unsigned>(t) == static_cast<unsigned>(type)) return t;
  }
  return std::nullopt;
}

// RFC 2181 section 8: a TTL with the top bit set counts as zero.
seconds ttl_of(const ldns_rr* rr) {
  const std::uint32_t ttl = ldns_rr_ttl(rr);
  return seconds(ttl > 0x7fffffffU ? 0 : ttl);
}

void read_answers(const ldns_pkt* packet, DnsReply& reply) {
  const ldns_rr_list* list = ldns_pkt_answer(packet);
  const std::size_t count = list == nullptr ? 0 : ldns_rr_list_rr_count(list);
  for (std::size_t i = 0; i < count; ++i) {
    const ldns_rr* rr = ldns_rr_list_rr(list, i);
    const auto type = known_type(ldns_rr_get_type(rr));
    if (!type || ldns_rr_get_class(rr) != LDNS_RR_CLASS_IN) continue;  // signatures and other extra records
    DnsRecord record;
    record.type = *type;
    record.ttl = ttl_of(rr);
    auto owner = name_text(ldns_rr_owner(rr));
    auto data = owner ? record_data(rr, record) : std::nullopt;
    if (!data || reply.answers.size() >= kMaxRecords) {
      reply.dropped = true;
      continue;
    }
    record.name = *std::move(owner);
    record.data = *std::move(data);
    reply.answers.push_back(std::move(record));
  }
}

void read_authority(const ldns_pkt* packet, DnsReply& reply) {
  const ldns_rr_list* list = ldns_pkt_authority(packet);
  const std::size_t count = list == nullptr ? 0 : ldns_rr_list_rr_count(list);
  for (std::size_t i = 0; i < count; ++i) {
    const ldns_rr* rr = ldns_rr_list_rr(list, i);
    const auto* minimum = field(rr, 6);
    if (ldns_rr_get_type(rr) != LDNS_RR_TYPE_SOA || minimum == nullptr || ldns_rdf_size(minimum) != 4) continue;
    reply.has_soa = true;
    reply.negative_ttl = std::min(ttl_of(rr), seconds(ldns_rdf2native_int32(minimum) & 0x7fffffffU));
    return;
  }
}

DnsAnswer negative(DnsOutcome outcome, std::string name, const DnsReply& reply, std::string_view text) {
  DnsAnswer answer;
  answer.outcome = outcome;
  answer.name = std::move(name);
  answer.ttl = reply.negative_ttl;
  answer.authenticated = reply.authenticated;
  answer.text = text;
  return answer;
}

std::string_view rcode_text(unsigned rcode) {
  switch (rcode) {
    case 1:
      return "Name server says the question is malformed";
    case 2:
      return "Host not found, try again";
    case 4:
      return "Name server does not know the type";
    case 5:
      return "Name server refused the question";
    default:
      return "Malformed or unexpected name server reply";
  }
}

}  // namespace

std::optional<std::string> normal_name(std::string_view name) {
  std::string ascii;
  if (std::ranges::any_of(name, [](char c) { return static_cast<unsigned char>(c) >= 0x80; })) {
    auto converted = idn::ascii_domain(name);
    if (!converted) return std::nullopt;
    ascii = *std::move(converted);
    name = ascii;
  }
  if (name.ends_with('.')) name.remove_suffix(1);
  if (name.empty() || name.size() > 253) return std::nullopt;
  std::size_t label = 0;
  for (const char c : name) {
    if (c == '.') {
      if (label == 0) return std::nullopt;
      label = 0;
    } else if (!host_byte(c) || ++label > 63) {
      return std::nullopt;
    }
  }
  if (label == 0) return std::nullopt;
  return to_lower(name);
}

Result<std::string> build_query(const DnsQuestion& question, std::uint16_t id, bool edns, bool dnssec) {
  constexpr unsigned kRecursion = 0x0100, kAuthenticated = 0x0020, kOpt = 41, kInternet = 1, kDnssecOk = 0x8000;
  constexpr std::size_t kMaxName = 255;
  std::string out;
  out.reserve(12 + question.name.size() + 17);
  const auto u16 = [&](unsigned value) {
    out += static_cast<char>(value >> 8 & 255);
    out += static_cast<char>(value & 255);
  };
  u16(id);
  u16(kRecursion | (dnssec ? kAuthenticated : 0));  // RFC 6840 section 5.7: asks for AD
  u16(1);
  u16(0);
  u16(0);
  u16(edns ? 1 : 0);
  for (std::string_view rest = question.name;;) {
    const std::string_view label = rest.substr(0, rest.find('.'));
    if (label.empty() || label.size() > 63) return fail(DnsError::bad_name, question.name);
    out += static_cast<char>(label.size());
    out += label;
    if (label.size() == rest.size()) break;
    rest.remove_prefix(label.size() + 1);
  }
  out += '\0';
  if (out.size() - 12 > kMaxName) return fail(DnsError::bad_name, question.name);
  u16(static_cast<unsigned>(question.type));
  u16(kInternet);
  if (edns) {
    out += '\0';  // of the root
    u16(kOpt);
    u16(kUdpSize);
    u16(0);  // extended code and version
    u16(dnssec ? kDnssecOk : 0);
    u16(0);
  }
  return out;
}

Result<DnsReply> parse_reply(std::string_view wire, const DnsQuestion& question, std::uint16_t id) {
  if (wire.size() < 12 || wire.size() > 65535) return fail(DnsError::malformed);
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(wire[i]); };
  if (((unsigned{byte(0)} << 8) | byte(1)) != id || (byte(2) & 0x80) == 0) return fail(DnsError::mismatch);
  ldns_pkt* parsed = nullptr;
  if (ldns_wire2pkt(&parsed, reinterpret_cast<const std::uint8_t*>(wire.data()), wire.size()) != LDNS_STATUS_OK) {
    // A truncated reply may end in the middle of a record; only the fact of truncation matters then.
    DnsReply cut;
    cut.truncated = (byte(2) & 0x02) != 0;
    if (cut.truncated) return cut;
    return fail(DnsError::malformed);
  }
  const Packet packet(parsed);
  const ldns_rr_list* questions = ldns_pkt_question(parsed);
  DnsReply reply;
  reply.rcode = static_cast<unsigned>(ldns_pkt_get_rcode(parsed));
  const std::size_t asked = questions == nullptr ? 0 : ldns_rr_list_rr_count(questions);
  // Some servers omit the question in an error reply.
  if (asked == 0 && reply.rcode != 0 && reply.rcode != 3) return reply;
  if (asked != 1) return fail(DnsError::mismatch);
  const ldns_rr* echoed = ldns_rr_list_rr(questions, 0);
  const auto name = name_text(ldns_rr_owner(echoed));
  if (!name || *name != question.name ||
      static_cast<unsigned>(ldns_rr_get_type(echoed)) != static_cast<unsigned>(question.type) ||
      ldns_rr_get_class(echoed) != LDNS_RR_CLASS_IN) {
    return fail(DnsError::mismatch);
  }
  reply.truncated = ldns_pkt_tc(parsed);
  reply.authenticated = ldns_pkt_ad(parsed);
  if (reply.rcode == 0 || reply.rcode == 3) {
    read_answers(parsed, reply);
    read_authority(parsed, reply);
  }
  return reply;
}

DnsReading read_reply(const DnsReply& reply, const DnsQuestion& question, std::size_t& aliases) {
  DnsReading reading;
  reading.answer.name = question.name;
  if (reply.rcode != 0 && reply.rcode != 3) {
    reading.answer.text = rcode_text(reply.rcode);
    return reading;
  }
  std::string name = question.name;
  seconds ttl = seconds::max();
  bool followed = false;
  while (question.type != RecordType::cname) {
    const auto alias = std::ranges::find_if(
        reply.answers, [&](const DnsRecord& r) { return r.type == RecordType::cname && r.name == name; });
    if (alias == reply.answers.end()) break;
    if (++aliases > kMaxAliases || alias->data.empty()) {
      reading.answer.text = "Too many or broken aliases";
      return reading;
    }
    ttl = std::min(ttl, alias->ttl);
    name = alias->data;
    followed = true;
  }
  auto& answer = reading.answer;
  answer.name = name;
  answer.authenticated = reply.authenticated;
  for (const auto& record : reply.answers) {
    if (record.type != question.type || record.name != name) continue;
    ttl = std::min(ttl, record.ttl);
    answer.records.push_back(record);
  }
  if (!answer.records.empty()) {
    answer.outcome = DnsOutcome::found;
    answer.ttl = ttl;
  } else if (reply.rcode == 3) {
    answer = negative(DnsOutcome::no_domain, name, reply, "Host not found");
    answer.ttl = std::min(answer.ttl, ttl);
  } else if (reply.dropped) {
    answer.text = "Malformed or unexpected name server reply";
  } else if (followed && !reply.has_soa) {
    reading.next = name;  // the server sent the alias without its target
    answer.ttl = ttl;
  } else {
    answer = negative(DnsOutcome::no_data, name, reply, "Host found but no data record of requested type");
    answer.ttl = std::min(answer.ttl, ttl);
  }
  return reading;
}

}  // namespace pen::net
