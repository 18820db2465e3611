#include "penevents/webhook.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/digest/digest.h"

namespace pen::penevents {
namespace {

/// Of a line of ours: {"id":17,…
std::string_view id_of(std::string_view line) {
  constexpr std::string_view kBefore = "{\"id\":";
  if (!line.starts_with(kBefore)) return "0";
  line.remove_prefix(kBefore.size());
  return line.substr(0, line.find(','));
}

}  // namespace

Batch make_batch(std::string_view lines) {
  Batch batch;
  std::string_view first, last;
  batch.body = "[";
  while (!lines.empty()) {
    const auto end = std::min(lines.find('\n'), lines.size());
    last = lines.substr(0, end);
    if (batch.events++ == 0)
      first = last;
    else
      batch.body += ',';
    batch.body += '\n';
    batch.body += last;
    lines.remove_prefix(std::min(end + 1, lines.size()));
  }
  batch.body += "\n]\n";
  batch.id = fmt::format("{}-{}", id_of(first), id_of(last));
  return batch;
}

std::string signature(std::string_view secret, std::string_view timestamp, std::string_view batch,
                      std::string_view body) {
  const std::string text = fmt::format("{}.{}.{}", timestamp, batch, body);
  std::string out = "sha256=";
  for (const char c : digest::hmac(digest::Digest::sha256, secret, text))
    out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

std::vector<std::string> batch_fields(const Batch& batch, std::string_view secret, WallTime now) {
  const std::string timestamp = std::to_string(unix_seconds(now));
  std::vector<std::string> fields = {"X-Penstock-Batch: " + batch.id, "X-Penstock-Timestamp: " + timestamp};
  if (!secret.empty()) fields.push_back("X-Penstock-Signature: " + signature(secret, timestamp, batch.id, batch.body));
  return fields;
}

milliseconds back_off(unsigned failures, milliseconds least, milliseconds most) {
  milliseconds wait = least;
  for (unsigned i = 1; i < failures && wait < most; ++i) wait *= 2;
  return std::min(wait, std::max(least, most));
}

}  // namespace pen::penevents
