// DMARC records and From: fields: any text is read, and what is asked for is never more than the record says.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/check.h"
#include "lib/trust/dmarc/author.h"
#include "lib/trust/dmarc/record.h"
#include "lib/trust/dmarc/suffixes.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pen;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (const auto record = dmarc::Record::parse(input)) {
    PEN_CHECK(dmarc::Record::is_one(input), "it is none");
    PEN_CHECK(record->percent <= 100, "more than all");
  }
  const auto authors = dmarc::authors_of({input, input});
  PEN_CHECK(!authors.domains.empty() || !authors.problem.empty(), "neither domains nor a problem");
  PEN_CHECK(!authors.more || !authors.problem.empty(), "too many, and no problem");
  PEN_CHECK(authors.domains.size() <= dmarc::Authors::kMost, "too many");
  if (const auto list = dmarc::Suffixes::parse(input))
    for (const auto& domain : authors.domains)
      PEN_CHECK(domain.ends_with((*list)->organisation(domain)), "an organisation elsewhere");
  return 0;
}
