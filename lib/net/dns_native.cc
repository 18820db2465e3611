#include "lib/net/dns_native.h"

#include <arpa/inet.h>
#include <netdb.h>

#include <array>

#include "lib/base/text.h"

namespace pen::net {

DnsAnswer lookup_native(const std::string& name, RecordType type) {
  DnsAnswer answer;
  answer.name = to_lower(name);
  answer.ttl = seconds(60);  // the files have no TTL
  addrinfo hints{};
  hints.ai_family = type == RecordType::aaaa ? AF_INET6 : AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int code = getaddrinfo(name.c_str(), nullptr, &hints, &list);
  if (code != 0) {
    answer.text = gai_strerror(code);
    switch (code) {
      case EAI_NONAME:
        answer.outcome = DnsOutcome::no_domain;
        break;
#ifdef EAI_NODATA
      case EAI_NODATA:
        answer.outcome = DnsOutcome::no_data;
        break;
#endif
#ifdef EAI_ADDRFAMILY
      case EAI_ADDRFAMILY:
        answer.outcome = DnsOutcome::no_data;
        break;
#endif
      default:
        break;
    }
    return answer;
  }
  for (const addrinfo* i = list; i != nullptr && answer.records.size() < kMaxRecords; i = i->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (getnameinfo(i->ai_addr, i->ai_addrlen, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) continue;
    DnsRecord record;
    record.type = type;
    record.name = answer.name;
    record.ttl = answer.ttl;
    record.data = text.data();
    answer.records.push_back(std::move(record));
  }
  freeaddrinfo(list);
  answer.outcome = answer.records.empty() ? DnsOutcome::no_data : DnsOutcome::found;
  return answer;
}

std::optional<std::string> reverse_name(const std::string& address) {
  std::array<unsigned char, 16> bytes{};
  std::string out;
  if (inet_pton(AF_INET, address.c_str(), bytes.data()) == 1) {
    for (int i = 3; i >= 0; --i) out += std::to_string(bytes[static_cast<std::size_t>(i)]) + ".";
    return out + "in-addr.arpa";
  }
  if (inet_pton(AF_INET6, address.c_str(), bytes.data()) != 1) return std::nullopt;
  constexpr std::string_view kHex = "0123456789abcdef";
  for (std::size_t i = 16; i-- > 0;) {
    out += kHex[bytes[i] & 15];
    out += '.';
    out += kHex[bytes[i] >> 4];
    out += '.';
  }
  return out + "ip6.arpa";
}

}  // namespace pen::net
