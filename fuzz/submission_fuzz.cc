// Input of strangers to sendmail and pendrop: the header that names recipients, the dot and the separators, and the
// file that pickup reads. Cutting the input elsewhere changes nothing, and decoded fields are fit for an envelope.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "lib/base/check.h"
#include "lib/mail/address.h"
#include "lib/receive/submission/format.h"
#include "lib/receive/submission/input.h"
#include "lib/receive/submission/recipients.h"

using namespace pen::submission;

namespace {

struct Read {
  std::string content, fault;
  std::vector<std::string> recipients;
  bool operator==(const Read&) const = default;
};

Read read(std::string_view text, std::size_t piece, bool dot_ends) {
  InputFilter filter({.dot_ends = dot_ends});
  HeaderRecipients header;
  Read out;
  const auto more = [&](std::size_t before) {
    if (!header.header_ended()) header.feed(std::string_view(out.content).substr(before));
  };
  while (!text.empty() && !filter.done()) {
    const auto before = out.content.size();
    filter.feed(text.substr(0, piece), out.content);
    more(before);
    text.remove_prefix(std::min(piece, text.size()));
  }
  const auto before = out.content.size();
  filter.finish(out.content);
  more(before);
  header.finish();
  out.fault = header.fault();
  out.recipients = header.take();
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  const bool dot_ends = (data[0] & 1) != 0;
  const Read whole = read(text, text.size() + 1, dot_ends);
  PEN_CHECK(whole == read(text, 1 + (data[0] >> 1), dot_ends));
  PEN_CHECK(whole.content.size() <= text.size());
  for (const auto& address : whole.recipients) PEN_CHECK(!address.empty());
  if (auto submission = decode_submission(text, true)) {
    PEN_CHECK(check(*submission, true).empty());
    PEN_CHECK(parse_head(head(*submission)).value() == *submission);
  }
  (void)parse_head(text);
  return 0;
}
