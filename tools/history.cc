#include "tools/history.h"

#include <fmt/format.h>
#include <sysexits.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "lib/base/date.h"
#include "lib/base/text.h"
#include "tools/output.h"

namespace pen::tools {
namespace {

using nlohmann::ordered_json;

constexpr const char* kProgram = "penstock";

/// An event with its fields as they are shown.
class Told {
 public:
  explicit Told(const ordered_json& event) : event_(event) {}

  /// Printable; empty: it has no such field.
  std::string text(const char* field) const {
    const auto at = event_.find(field);
    return at != event_.end() && at->is_string() ? readable(at->get<std::string>()) : std::string();
  }
  std::uint64_t number(const char* field) const {
    const auto at = event_.find(field);
    return at != event_.end() && at->is_number_unsigned() ? at->get<std::uint64_t>() : 0;
  }
  /// "before TEXT after", if the field is there.
  std::string with(std::string_view before, const char* field, std::string_view after = {}) const {
    const std::string value = text(field);
    return value.empty() ? std::string() : fmt::format("{}{}{}", before, value, after);
  }

  std::string when() const {
    const auto at = parse_date_time(text("time"));
    return at ? local_text(*at) : text("time");
  }
  std::string client() const {
    const std::string name = text("client_name"), address = text("client_address");
    if (address.empty()) return name;
    return name.empty() ? address : fmt::format("{}[{}]", name, address);
  }
  std::string what() const;

 private:
  std::string received() const;
  /// "delivered to <…>, attempt 2, by RELAY over TLSv1.3: REPLY"
  std::string attempt(std::string_view verb) const;
  std::string order() const;

  const ordered_json& event_;
};

std::string Told::received() const {
  const std::string from = client();
  std::string out = "received";
  if (!from.empty()) out += " from " + from;
  out += with(" as ", "helo") + with(" by ", "proto") + with(", user ", "sasl_username");
  if (const auto recipients = number("nrcpt"); recipients > 1) out += fmt::format(", for {} recipients", recipients);
  out += with(", for <", "to", ">") + with(", to be sent at ", "release") + with(", ", "action");
  return out + with(", Message-ID ", "message_id");
}

std::string Told::attempt(std::string_view verb) const {
  std::string out = fmt::format("{} <{}>", verb, text("to")) + with(" (for <", "orig_to", ">)");
  if (const auto attempt = number("attempt"); attempt > 1) out += fmt::format(", attempt {}", attempt);
  if (const std::string relay = text("relay"); !relay.empty() && relay != "none") out += ", by " + relay;
  return out + with(" over ", "tls_protocol") + with(": ", "reply");
}

std::string Told::order() const {
  std::string out = text("action");
  if (const auto count = number("count"); count > 0) out += fmt::format(", {} messages", count);
  return out + with(" of ", "destination") + with(", by ", "by") + with(": ", "reason");
}

std::string Told::what() const {
  const std::string type = text("type");
  if (type == "received") return received();
  if (type == "delivered") return attempt("delivered to");
  if (type == "deferred") return attempt("put off for");
  if (type == "bounced") return attempt("cannot be delivered to") + with("; ", "reason");
  if (type == "expired") return fmt::format("too old: {} recipients are given up", number("nrcpt"));
  if (type == "order") return order();
  if (type == "removed") return "has left the queue";
  if (type == "rejected") {
    std::string out = "refused" + with(" at ", "stage");
    if (const std::string from = client(); !from.empty()) out += " from " + from;
    return out + with(", for <", "to", ">") + with(": ", "reply");
  }
  if (type == "returned")
    return "a notice has come back" + with(" from ", "reporting_mta") + with(" of <", "to", ">") +
           with(" (", "status", ")") + with(": ", "reply");
  if (type == "feedback") return "a complaint has come" + with(" (", "feedback_type", ")") + with(" of <", "to", ">");
  if (type == "suppressed")
    return "onto the suppression list:" + with(" <", "to", ">") + with(" (", "reason", ")") + with(": ", "reply");
  return type + with(": ", "reason");
}

/// Of one message, or of none.
struct Paragraph {
  std::string queue_id, from, lines;
  bool sender_known = false;
  std::uint64_t size = 0;

  std::string text() const {
    std::string head = queue_id.empty() ? "not taken" : queue_id;
    if (sender_known) head += fmt::format("  from <{}>", from);
    if (size > 0) head += fmt::format(", {} bytes", size);
    return head + '\n' + lines;
  }
};

void refuse(const std::string& path, const Error& why) {
  const int status = why.is_errno(ENOENT)                          ? EX_NOINPUT
                     : why.is_errno(EACCES) || why.is_errno(EPERM) ? EX_NOPERM
                                                                   : EX_IOERR;
  die(kProgram, status,
      status == EX_NOINPUT ? path + ": there is no file of events yet (event_log_file)" : why.message());
}

}  // namespace

std::string history_text(const std::vector<ordered_json>& events) {
  std::vector<Paragraph> paragraphs;
  std::map<std::string, std::size_t> places;
  for (const auto& event : events) {
    const Told told(event);
    const std::string id = told.text("queue_id");
    const auto [place, is_new] = places.emplace(id, paragraphs.size());
    if (is_new) paragraphs.push_back({.queue_id = id, .from = {}, .lines = {}});
    Paragraph& paragraph = paragraphs[place->second];
    // A refusal stands alone; what came back names the sender of other mail.
    const std::string type = told.text("type");
    if (!id.empty() && !paragraph.sender_known && event.contains("from") && type != "returned" && type != "feedback") {
      paragraph.from = told.text("from");
      paragraph.sender_known = true;
    }
    paragraph.size = std::max(paragraph.size, told.number("size"));
    paragraph.lines += fmt::format("  {}  {}\n", told.when(), told.what());
  }
  std::string out;
  for (const auto& one : paragraphs) out += (out.empty() ? "" : "\n") + one.text();
  return out;
}

int show_history(const config::Config& config, const HistoryOptions& options) {
  const std::string& path = config.settings().event_log_file;
  if (path.empty())
    die(kProgram, EX_UNAVAILABLE, "no events are kept: set event_log_file, and what happens from then on is known");
  auto found = search_events(path, options.sought, options.most);
  if (!found) refuse(path, found.error());
  for (const auto& trouble : found->troubles) std::fprintf(stderr, "%s: %s\n", kProgram, readable(trouble).c_str());
  if (found->events.empty()) {
    const bool message = !options.sought.queue_id.empty();
    const std::string what = message ? options.sought.queue_id : "<" + options.sought.address + ">";
    die(kProgram, EX_DATAERR,
        readable(what) + ": no event of " + (message ? "this message" : "this address") + " in " + path +
            " or in the files that it was renamed to");
  }
  std::string out;
  if (options.json)
    for (const auto& event : found->events)
      out += event.dump(-1, ' ', false, ordered_json::error_handler_t::replace) + '\n';
  else
    out = history_text(found->events);
  print(out);
  if (found->more) std::fprintf(stderr, "%s: there are older events: -n N shows more\n", kProgram);
  return EX_OK;
}

}  // namespace pen::tools
