// Key records from DNS, and private keys from files: any bytes give a key or an error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lib/base/check.h"
#include "lib/trust/dkim/key.h"
#include "lib/trust/dkim/key_record.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pen;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (const auto record = dkim::KeyRecord::parse(input)) {
    if (const auto key = dkim::PublicKey::of(*record))
      PEN_CHECK(!key->verifies("text", input.substr(0, 64)), "a signature that nobody made");
  }
  if (const auto key = dkim::PrivateKey::parse(input)) PEN_CHECK((*key)->bits() > 0, "a key without size");
  const std::string line = dkim::zone_line("name", input);
  PEN_CHECK(line.size() >= input.size(), "something is missing");
  return 0;
}
