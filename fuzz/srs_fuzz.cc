// Rewritten senders: what is written is read back; nothing that was not written here is accepted.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lib/base/check.h"
#include "lib/base/text.h"
#include "lib/mail/address.h"
#include "lib/trust/srs/srs.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pen;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const WallTime now{seconds(1795712657)};
  static const srs::Srs kOne({.secrets = {"a secret that the fuzzer does not know"}, .hash_length = 27});
  static const srs::Srs kTwo({.secrets = {"another"}, .hash_length = 27, .separator = '+'});
  (void)kOne.reverse(input, now);  // short hashes can be guessed
  const auto address = mail::parse_path(input, {.smtputf8 = true, .allow_bare_local = false});
  if (!address) return 0;
  const auto once = kOne.forward(*address, "one.example", now);
  if (!once) return 0;
  PEN_CHECK(srs::Srs::rewritten(*once), "it does not look rewritten");
  const auto back = kOne.reverse(*once, now);
  PEN_CHECK(back.has_value(), "it does not come back");
  if (!srs::Srs::rewritten(*address))
    PEN_CHECK(mail::to_internal(*back) == mail::to_internal(*address), "it comes back as another");
  PEN_CHECK(!kTwo.reverse(*once, now), "a secret that did not make it");
  const auto twice = kTwo.forward(*once, "two.example", now);
  PEN_CHECK(twice.has_value(), "a second host cannot rewrite it");
  const auto first = kTwo.reverse(*twice, now);
  PEN_CHECK(first.has_value(), "the second host does not find back");
  return 0;
}
