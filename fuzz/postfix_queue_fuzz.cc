// Files of Postfix's queue, which users of the host have written parts of: reading ends, content does not depend on
// how it is asked for, and what is taken over is fit for an envelope.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "lib/base/check.h"
#include "lib/mail/address.h"
#include "lib/queue/postfix_queue/envelope.h"
#include "pickup/postdrop.h"

using namespace pen;
using namespace pen::postfix_queue;

namespace {

bool clean(std::string_view text) {
  for (const char c : text)
    if (static_cast<unsigned char>(c) < 32 || c == 127) return false;
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  (void)read_reasons(bytes);
  // As the input of postdrop: what is taken is what pickup may be given.
  if (const auto given = pickup::read_postdrop(bytes, WallTime(std::chrono::seconds(1'795'792'370))))
    PEN_CHECK(submission::check(given->submission, false).empty());
  const auto alone = read_queue_file(bytes);
  std::string stored;
  std::uint64_t seen = 0, lines = 0;
  ContentTaker taker(true, [&](std::string_view part) { stored += part; });
  const auto sink = taker.sink();
  const auto file = read_queue_file(bytes, [&](std::string_view part, bool ends) {
    seen += part.size() + (ends ? 1 : 0);
    lines += ends ? 1 : 0;
    sink(part, ends);
  });
  PEN_CHECK(alone.has_value() == file.has_value());
  if (!file) return 0;
  PEN_CHECK(seen == file->content_size && lines == file->content_lines);
  const auto facts = taker.finish();
  PEN_CHECK(facts.size == stored.size() && facts.header_size <= facts.size);
  // Line feeds within a line become line ends.
  PEN_CHECK(stored.size() <= 2 * file->content_size + 2);
  PEN_CHECK(stored.empty() || stored.ends_with("\r\n"));
  if (const auto taken = envelope_of(*file, "A")) {
    const auto& e = taken->envelope;
    PEN_CHECK(e.recipients.size() == taken->from.size() && e.recipients.size() <= file->recipients.size());
    PEN_CHECK(clean(e.sender) && clean(e.envid) && clean(e.filter) && clean(e.client.helo));
    for (const auto& r : e.recipients)
      PEN_CHECK(!r.address.empty() && r.address.size() <= mail::kMaxPath && clean(r.address) && clean(r.original) &&
                clean(r.orcpt));
  }
  return 0;
}
