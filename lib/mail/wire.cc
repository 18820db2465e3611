#include "lib/mail/wire.h"

#include <algorithm>

namespace pen::mail {

void FactsCollector::text(std::string_view part) {
  unsigned char all = 0;
  bool nul = false;
  for (const char c : part) {  // no branches: the compiler vectorises this loop
    all |= static_cast<unsigned char>(c);
    nul |= c == 0;
  }
  if (all >= 0x80) (header_ended_ ? facts_.eight_bit_body : facts_.eight_bit_header) = true;
  if (nul) facts_.nul = true;
  line_ += part.size();
  facts_.size += part.size();
}

void FactsCollector::line_end() {
  if (line_ > facts_.longest_line) facts_.longest_line = line_;
  line_ = 0;
  facts_.size += 2;
}

void FactsCollector::lines(std::string_view text, const PlainLines& run) {
  facts_.size += text.size();
  facts_.longest_line = std::max<std::uint64_t>(facts_.longest_line, run.longest);
  if (run.eight_bit) (header_ended_ ? facts_.eight_bit_body : facts_.eight_bit_header) = true;
  if (run.nul) facts_.nul = true;
}

BodyFacts FactsCollector::finish() && {
  if (line_ > facts_.longest_line) facts_.longest_line = line_;
  if (!header_ended_) facts_.header_size = facts_.size;
  return std::move(facts_);
}

}  // namespace pen::mail
