/// main.cf and master.cf from anybody: read, expanded, reported on, edited.
///
/// Input: main.cf, and after a line "%%" master.cf. Checked besides "no crash": an edit is found again by reading.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/check.h"
#include "lib/base/text.h"
#include "lib/config/config.h"
#include "lib/config/edit.h"
#include "lib/config/values.h"

using namespace pen::config;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t cut = input.find("\n%%\n");
  const std::string main_cf(input.substr(0, cut));
  const std::string master_cf(cut == std::string_view::npos ? "" : input.substr(cut + 4));

  static const pen::config::Surroundings here = [] {
    Surroundings s;
    s.hostname = "mail.example";
    s.interfaces = {{"192.0.2.1", 24, false}, {"fd00::1", 64, true}};
    return s;
  }();
  const Config config = Config::parse({"/etc/x", main_cf, master_cf, {}}, here);
  for (const Problem& p : config.report()) PEN_CHECK(!p.text.empty() && !p.message().empty());
  for (const std::string& name : config.names_set()) {
    PEN_CHECK(config.written(name) && config.where(name));
    if (const auto value = config.text(name)) PEN_CHECK(pen::split_list(*value).size() <= value->size());
  }

  const auto edited = edit_main_cf(main_cf, {{Edit::Kind::set, "relayhost", "fuzz"}});
  PEN_CHECK(edited.has_value());
  if (edited->size() <= kMaxFile) {
    Problems problems;
    std::string found;
    for (const Assignment& a : parse_main_cf(*edited, "", problems))
      if (a.name == "relayhost") found = a.value;
    PEN_CHECK(found == "fuzz");
  }
  return 0;
}
