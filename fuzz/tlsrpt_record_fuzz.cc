/// TXT records that ask for TLS reports: whatever they contain, the result is an address or a URL that is safe in an
/// envelope and a header field.
#include "lib/base/check.h"
#include "tlsrpt/record.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> records;
  for (std::size_t at = 0; at <= text.size();) {  // a zero byte ends a record
    const auto end = std::min(text.find('\0', at), text.size());
    records.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  const auto targets = pen::tlsrpt::read_records(records);
  PEN_CHECK(targets.size() <= pen::tlsrpt::kMaxTargets);
  for (const auto& target : targets) {
    PEN_CHECK(!target.value.empty() && target.value.size() <= pen::tlsrpt::kMaxTarget);
    for (const char c : target.value) PEN_CHECK(c > ' ' && c < 0x7f);
    if (target.kind == pen::tlsrpt::Target::Kind::mail)
      PEN_CHECK(target.value.find_first_of("<>,\"") == std::string::npos);
  }
  return 0;
}
