// Paths and address lists from strangers: no crash, accepted input is stable under quoting and splitting, and what a
// table may have in place of an address is another text.
#include <cstddef>
#include <cstdint>
#include <string>

#include "lib/base/check.h"
#include "lib/base/idn/domain.h"
#include "lib/base/idn/fold.h"
#include "lib/mail/address.h"

using namespace pen::mail;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  PathOptions options;
  options.smtputf8 = (data[0] & 1) != 0;
  options.allow_null = (data[0] & 2) != 0;
  options.strict = (data[0] & 4) != 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  std::size_t used = 0;
  if (const auto path = parse_path(text, options, &used)) {
    PEN_CHECK(used <= text.size());
    PEN_CHECK(path->size() <= kMaxPath);
    if (!path->empty()) {
      // In an address without a domain, an @ in quotes would be taken for the separator.
      if (has_domain(*path)) PEN_CHECK(to_external(to_internal(*path)) == *path);
      const auto again = parse_path("<" + *path + ">", options);
      PEN_CHECK(again && *again == *path);
    }
  }
  for (const auto& listed : parse_address_list(text, 100)) PEN_CHECK(!listed.address.empty());
  (void)fold_domain(text);
  const std::string folded = pen::idn::fold(text);
  for (const std::string& form : pen::idn::other_forms(text))
    PEN_CHECK(!form.empty() && pen::idn::fold(form) != folded);
  PEN_CHECK(pen::idn::same_address(text, text));
  (void)literal_address(text);
  (void)valid_hostname(text, true);
  (void)split_extension(text, "+-");
  (void)unquote_local(text);
  return 0;
}
