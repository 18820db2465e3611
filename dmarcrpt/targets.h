#pragma once
/// The targets of a domain's aggregate reports: the rua= of its DMARC record.
///
/// Use:     for (const Rua& rua : read_rua(record.rua))
///            if (is_outside(rua.address, "a.example", suffixes)) … consents(texts_at(consent_name(…))) …
/// Rules:   only mailto:, as RFC 9990 has it; other schemes are passed over. A target outside the organisation must
///          consent, or anybody could have reports sent to anybody (RFC 9990 section 4).
/// Bounds:  kMaxTargets of one record. Pure.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/trust/dmarc/suffixes.h"

namespace pen::dmarcrpt {

inline constexpr std::size_t kMaxTargets = 10, kMaxTarget = 1000;

struct Rua {
  std::string address;
  std::uint64_t max_size = 0;  // bytes of the compressed report; 0: no limit
  bool operator==(const Rua&) const = default;
};

/// rua: the value of the tag, such as "mailto:a@b.example!10m,mailto:c@d.example".
std::vector<Rua> read_rua(std::string_view rua);

/// Whether the address is of another organisation than the domain. suffixes: nullptr: only the domain itself and names
/// below it are inside.
bool is_outside(std::string_view address, std::string_view domain, const dmarc::Suffixes* suffixes);
/// Where the owner of the address would say that reports on the domain are wanted.
std::string consent_name(std::string_view domain, std::string_view address);
/// Whether one of the texts says so.
bool consents(const std::vector<std::string>& texts);

}  // namespace pen::dmarcrpt
