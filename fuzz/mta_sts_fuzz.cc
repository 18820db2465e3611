/// MTA-STS: data from a name server and a policy host. The first byte chooses: even a TXT record, odd a policy.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "lib/base/text.h"
#include "lib/trust/mta_sts/policy.h"

namespace {

using namespace pen;

void record(std::string_view text) {
  const auto id = mta_sts::parse_record(text);
  if (!id) return;
  if (id->empty() || id->size() > 32) std::abort();
  for (const char c : *id)
    if (!ascii_alnum(c)) std::abort();  // the log shows the id unescaped
  const std::string again = "v=STSv1; id=" + *id + ";";
  if (mta_sts::parse_record(again) != id) std::abort();
}

void policy(std::string_view text) {
  const auto parsed = mta_sts::parse_policy(text);
  if (!parsed) return;
  if (parsed->max_age < seconds(0) || parsed->max_age > mta_sts::kMaxAge) std::abort();
  if (parsed->mx.empty() && parsed->mode != mta_sts::Mode::none) std::abort();
  std::string again = "version: STSv1\nmode: " + std::string(mode_name(parsed->mode)) +
                      "\nmax_age: " + std::to_string(parsed->max_age.count()) + "\n";
  for (const std::string& mx : parsed->mx) {
    again += "mx: " + mx + "\n";
    // A pattern matches hosts with one label in place of the wildcard; a name matches itself.
    const std::string host = mx.starts_with("*.") ? "a" + mx.substr(1) : mx;
    if (!parsed->names_host(host)) std::abort();
  }
  if (again.size() > mta_sts::kMaxPolicy) return;
  if (auto same = mta_sts::parse_policy(again); !same || *same != *parsed) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  data[0] % 2 == 0 ? record(text) : policy(text);
  return 0;
}
