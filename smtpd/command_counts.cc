#include "smtpd/command_counts.h"

#include <fmt/format.h>

#include <string_view>

#include "lib/base/text.h"

namespace pen::smtpd {

void CommandCounts::add(mail::Verb verb, bool ok) {
  const auto i = static_cast<std::size_t>(verb);
  if (!counts_) counts_ = std::make_unique<Counts>();
  ++counts_->tried[i];
  if (ok) ++counts_->succeeded[i];
}

std::string CommandCounts::text() const {
  std::string line;
  std::uint32_t tried = 0, succeeded = 0;
  const auto add = [&](std::string_view name, std::uint32_t ok, std::uint32_t all) {
    if (ok == all)
      line += fmt::format(" {}={}", name, all);
    else
      line += fmt::format(" {}={}/{}", name, ok, all);
  };
  for (std::size_t i = 0; counts_ && i < mail::kVerbs; ++i) {
    if (counts_->tried[i] == 0) continue;
    add(to_lower(mail::verb_name(static_cast<mail::Verb>(i))), counts_->succeeded[i], counts_->tried[i]);
    tried += counts_->tried[i];
    succeeded += counts_->succeeded[i];
  }
  add("commands", succeeded, tried);
  return line;
}

}  // namespace pen::smtpd
