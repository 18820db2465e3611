#include "penevents/accounting.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "penevents/json.h"

namespace pen::penevents {
namespace {

using events::Field;

std::string date(WallTime time) {
  const auto s = std::clamp<std::int64_t>(unix_seconds(time), 0, 253'402'300'799);  // year 9999
  return fmt::format("{:%Y-%m-%d %H:%M:%S}+0000", fmt::gmtime(static_cast<std::time_t>(s)));
}

void append(std::string& out, std::string_view value) {
  if (!out.empty()) out += ',';
  const bool quote = value.find_first_of(",\"\r\n") != std::string_view::npos;
  if (quote) out += '"';
  for (const char c : value) {
    if (c == '"') out += '"';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  if (quote) out += '"';
}

std::string_view domain_of(std::string_view address) {
  const auto at = address.rfind('@');
  return at == std::string_view::npos ? std::string_view() : address.substr(at + 1);
}

struct Category {
  std::string_view ending;  // of the code, after its class
  std::string_view name;
};
// RFC 3463, in the words that PowerMTA has for such bounces.
constexpr auto kCategories = std::to_array<Category>({{"1.1", "bad-mailbox"},
                                                      {"1.6", "bad-mailbox"},
                                                      {"1.2", "bad-domain"},
                                                      {"1.10", "bad-domain"},
                                                      {"1.3", "bad-mailbox"},
                                                      {"2.1", "inactive-mailbox"},
                                                      {"2.2", "quota-issues"},
                                                      {"2.3", "policy-related"},
                                                      {"3.4", "policy-related"},
                                                      {"4.1", "no-answer-from-host"},
                                                      {"4.2", "bad-connection"},
                                                      {"4.3", "routing-errors"},
                                                      {"4.4", "routing-errors"},
                                                      {"4.6", "routing-errors"},
                                                      {"4.7", "message-expired"},
                                                      {"7.1", "policy-related"},
                                                      {"7.0", "policy-related"}});

}  // namespace

std::string_view bounce_category(std::string_view dsn) {
  if (dsn.size() < 3 || dsn[1] != '.') return "other";
  const std::string_view rest = dsn.substr(2);
  const auto at = std::ranges::find(kCategories, rest, &Category::ending);
  if (at != kCategories.end()) return at->name;
  if (rest.starts_with("5.")) return "protocol-errors";
  if (rest.starts_with("6.")) return "content-related";
  if (rest.starts_with("7.")) return "policy-related";
  return "other";
}

std::string_view accounting_header() {
  return "type,timeLogged,timeQueued,orig,rcpt,orcpt,dsnAction,dsnStatus,dsnDiag,dsnMta,bounceCat,srcType,srcMta,"
         "dlvType,dlvSourceIp,dlvDestinationIp,dlvEsmtpAvailable,dlvSize,vmta,jobId,envId,queue,vmtaPool\n";
}

std::optional<std::string> accounting_line(const events::Seen& e) {
  // Of notices by others only the failures are rows.
  const bool remote = e.type == events::Type::returned && e.text(Field::status) == "failed";
  const bool bounced = e.type == events::Type::bounced || remote;
  const bool deferred = e.type == events::Type::deferred;
  if (!bounced && !deferred && e.type != events::Type::delivered) return std::nullopt;
  const Relay relay = relay_of(e.text(Field::relay));
  const bool by_network = !relay.address.empty();
  const std::string_view client = e.text(Field::client_address);
  std::string out;
  append(out, remote ? "rb" : bounced ? "b" : deferred ? "t" : "d");
  append(out, date(e.time));
  const auto queued = static_cast<std::int64_t>(e.number(Field::arrival));
  append(out, remote ? std::string() : date(WallTime(microseconds(queued))));
  append(out, e.text(Field::from));
  append(out, e.text(Field::to));
  append(out, e.text(Field::orcpt));
  append(out, bounced ? "failed" : deferred ? "delayed" : by_network ? "relayed" : "delivered");
  append(out, e.text(Field::dsn));
  append(out, e.text(Field::reply));
  append(out, remote       ? std::string(e.text(Field::remote_mta))
              : by_network ? fmt::format("{} ({})", relay.host, relay.address)
                           : std::string());
  append(out, bounced || deferred ? bounce_category(e.text(Field::dsn)) : std::string_view());
  append(out, client.empty() ? "local" : "smtp");
  append(out, client);
  append(out, by_network ? "smtp" : relay.host);
  append(out, e.text(Field::source_address));
  append(out, relay.address);
  append(out, {});
  append(out, remote ? std::string() : std::to_string(e.number(Field::size)));
  append(out, e.text(Field::source));
  append(out, {});
  append(out, e.text(Field::envid));
  append(out, domain_of(e.text(Field::to)));
  append(out, {});
  out += '\n';
  return out;
}

}  // namespace pen::penevents
