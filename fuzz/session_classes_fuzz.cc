/// session_classes from anybody, and names and addresses from peers: parsed values equal the written ones, and a
/// session gets the first class that fits.
///
/// Input: the setting, and after a line "%%" a name, after another an address.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/check.h"
#include "lib/suite/sessions/classes.h"

using pen::sessions::Classes;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  std::string_view parts[3];
  for (auto& part : parts) {
    const std::size_t cut = rest.find("\n%%\n");
    part = rest.substr(0, cut);
    rest = cut == std::string_view::npos ? std::string_view() : rest.substr(cut + 4);
  }
  const auto classes = Classes::parse(parts[0]);
  if (!classes) {
    PEN_CHECK(classes.error().starts_with("entry "));
    return 0;
  }
  PEN_CHECK(classes->list().size() <= pen::sessions::kMaxClasses);
  std::string again;
  for (const auto& c : classes->list()) {
    PEN_CHECK(c.total > 0 && c.refuse > 0);
    again += (again.empty() ? "" : ", ") + c.mask + " " + std::to_string(c.total) + " " + std::to_string(c.refuse);
  }
  const auto second = Classes::parse(again);
  PEN_CHECK(second && second->list().size() == classes->list().size());
  const auto found = classes->find(parts[1], parts[2]);
  PEN_CHECK(found == second->find(parts[1], parts[2]));
  PEN_CHECK(!found || *found < classes->list().size());
  const bool loopback = pen::sessions::is_loopback(pen::parse_ip(parts[2]));
  PEN_CHECK(found || loopback || !classes->catches_all());
  return 0;
}
