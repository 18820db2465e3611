#include "lib/net/tls/tlsa.h"

#include <openssl/err.h>

#include <charconv>

#include "lib/base/text.h"
#include "lib/net/tls/openssl.h"

namespace pen::tls {
namespace {

/// Whether the bytes are exactly one certificate with a readable key, or one public key.
bool is_whole(const Tlsa& record) {
  const auto* at = reinterpret_cast<const unsigned char*>(record.data.data());
  const auto* const end = at + record.data.size();
  const auto size = static_cast<long>(record.data.size());
  bool whole = false;
  if (record.selector == 0) {
    const X509Ptr certificate(d2i_X509(nullptr, &at, size));
    whole = certificate && X509_get0_pubkey(certificate.get()) != nullptr;
  } else {
    whole = KeyPtr(d2i_PUBKEY(nullptr, &at, size)) != nullptr;
  }
  ERR_clear_error();
  return whole && at == end;
}

}  // namespace

std::optional<Tlsa> parse_tlsa(std::string_view text) {
  const auto fields = split(text);
  if (fields.size() != 4 || fields[3].empty() || fields[3].size() % 2 != 0) return std::nullopt;
  Tlsa record;
  std::uint8_t* const numbers[] = {&record.usage, &record.selector, &record.matching};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto number = parse_unsigned(fields[i]);
    if (!number || *number > 255) return std::nullopt;
    *numbers[i] = static_cast<std::uint8_t>(*number);
  }
  for (std::size_t i = 0; i < fields[3].size(); i += 2) {
    unsigned byte = 0;
    const char* const from = fields[3].data() + i;
    if (std::from_chars(from, from + 2, byte, 16).ptr != from + 2) return std::nullopt;
    record.data += static_cast<char>(byte);
  }
  return record;
}

bool usable_for_smtp(const Tlsa& record) {
  if ((record.usage != 2 && record.usage != 3) || record.selector > 1) return false;
  switch (record.matching) {
    case 0:
      return is_whole(record);
    case 1:
      return record.data.size() == 32;
    case 2:
      return record.data.size() == 64;
    default:
      return false;
  }
}

}  // namespace pen::tls
